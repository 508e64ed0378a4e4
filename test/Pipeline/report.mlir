// What got which format and why, as lines and as JSON.
//
// RUN: scalify-compile %s -o %t --target=stablehlo --recipe=fp8 --report=text | FileCheck %s
// RUN: scalify-compile %s -o %t --target=stablehlo --recipe=fp8 --report=json | FileCheck %s --check-prefix=JSON
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --recipe=fp8 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --recipe=fp8 --remarks 2>&1 | FileCheck %s --check-prefix=REMARKS

// CHECK:      2 casts to f8E4M3FN
// CHECK-NEXT: 1 dots f8E4M3FN x f8E4M3FN -> f32
// CHECK-NEXT: 1 dots f32 x f32 -> f32
// CHECK-NEXT:   dot %{{.*}} f8E4M3FN x f8E4M3FN -> f32, forward, {{.*}}report.mlir:21:8: dot: sqrt(K = 64)
// CHECK-NEXT:   dot %{{.*}} f32 x f32 -> f32, forward, {{.*}}report.mlir:23:8: stays wide: head
// JSON: [{"format":"f32","loc":"{{[^"]*}}report.mlir:20:24","op":"argument","phase":"{{[a-z]+}}","reason":"undeclared argument: 2^0","scale":0,"value":"arg0"}
// JSON-SAME: {"cast":"c0: arg0","format":"f8E4M3FN","loc":"{{[^"]*}}","op":"quantize","phase":"forward","reason":"undeclared argument: 2^0","scale":0,"value":"%{{[^"]*}}"}
// COUNT: scalify-compile: 4 remarks (--remarks prints them)
// REMARKS: remark: argument 0 of 'main' has no declared scale
// REMARKS: report.mlir:23:8: remark: dot stays wide: head
// REMARKS-NEXT: | %2 = stablehlo.dot_general

func.func public @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %1 = stablehlo.tanh %0 : tensor<16x32xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
