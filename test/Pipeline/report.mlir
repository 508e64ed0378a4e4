// What got which format and why, as lines and as JSON.
//
// RUN: scalify-compile %s -o %t --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --declared-scales --report=text | FileCheck %s
// RUN: scalify-compile %s -o %t --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --declared-scales --report=json | FileCheck %s --check-prefix=JSON
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --declared-scales 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --declared-scales --remarks 2>&1 | FileCheck %s --check-prefix=REMARKS

// Without --declared-scales the step measures what no scale is given of.
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --report=json 2>%t.err | FileCheck %s --check-prefix=MEASURED
// RUN: FileCheck %s --check-prefix=ONE --input-file=%t.err
// RUN: not scalify-compile %s -o /dev/null --target=stablehlo --recipe='#scalify.recipe<"fp8", head = false>' --strict --declared-scales 2>&1 | FileCheck %s --check-prefix=STRICT

// CHECK:      recipe fp8, 8 values
// CHECK-NEXT: after validate-import: 3 ops
// CHECK-NEXT: after propagate: 3 ops, 4 scale_hint
// CHECK-NEXT: after quantize: 3 ops, 2 dequantize, 2 quantize
// CHECK-NEXT: 2 casts to f8E4M3FN
// CHECK-NEXT: 1 dots f32 x f32 -> f32
// CHECK-NEXT: 1 dots f8E4M3FN x f8E4M3FN -> f32
// CHECK-NEXT: 2 scales carried
// CHECK-NEXT: 1 dots: stays wide: head
// CHECK-DAG:  %0 {{.*}} forward, dot: sqrt(K = 64) [mean 0, rms 8] at {{.*}}report.mlir:[[#]]:8
// CHECK-DAG:  %1 {{.*}} tanh: bounded by 1
// CHECK-DAG:  %2 {{.*}} stays wide: head
// JSON:      "recipe":"fp8","rows":[
// JSON-SAME: {"format":"f32","from":[],"id":0,"loc":"{{[^"]*}}report.mlir:[[#]]:24","mean":0,"op":"argument","phase":"{{[a-z]+}}","rms":1,"rule":"undeclared argument: 2^0","scale":0,"source":"%x","value":"arg0"}
// JSON-SAME: {"cast":"c0: arg0","format":"f8E4M3FN","from":[0],{{.*}}"op":"quantize","phase":"forward",{{.*}}"rule":"undeclared argument: 2^0","scale":0,"scaling":"carried","value":"c0"}
// JSON-SAME: "schema":"scalify.report/1"
// MEASURED: "op":"argument","phase":"{{[a-z]+}}","rms":1,"rule":"measured in each step: no declared scale","scale":0,"scaling":"measured","source":"%x"
// ONE: warning: the step measures 3 arguments without a declared scale, 13312 bytes in each step: scales that are given (scales=, --scales, --state) are constants
// STRICT: error: argument 0 of 'main' has no declared scale

// COUNT: scalify-compile: 4 remarks (--remarks prints them)
// REMARKS: remark: argument 0 of 'main' has no declared scale
// REMARKS: report.mlir:[[#]]:8: remark: dot stays wide: head
// REMARKS-NEXT: | %2 = stablehlo.dot_general

func.func public @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %1 = stablehlo.tanh %0 : tensor<16x32xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
