// RUN: scalify-opt %s --scalify-analyse-ranges --scalify-decide-formats="recipe=fp8 remarks=0" --scalify-quantize | FileCheck %s --check-prefixes=CHECK,REPORT
// RUN: scalify-opt %s --scalify-analyse-ranges --scalify-decide-formats="recipe=fp8 remarks=0 range-use=choose" --scalify-quantize | FileCheck %s --check-prefixes=CHECK,CHOOSE
// RUN: scalify-opt %s --scalify-analyse-ranges --scalify-decide-formats="recipe=fp8 remarks=0 range-use=choose strict=1" --scalify-quantize=strict=1 | FileCheck %s --check-prefix=STRICT
// RUN: scalify-opt %s --scalify-analyse-ranges --scalify-decide-formats="recipe=fp8 remarks=0 range-use=choose strict=1" | FileCheck %s --check-prefix=DECIDED
// RUN: not scalify-opt %s --scalify-decide-formats=range-use=never 2>&1 | FileCheck %s --check-prefix=WRONG

// WRONG: unknown use of ranges 'never': expected report or choose

// %a fits E4M3, %b only E5M2, %c neither: nothing is known of it.

// CHECK-LABEL: func.func @main(
// CHECK-DAG: scalify.quantize %arg0, {{.*}}scalify.proved = {{.*}} -> tensor<4x64xf8E4M3FN>
// REPORT-DAG: scalify.quantize %arg1, {{.*}}scalify.unproved = {{.*}} -> tensor<4x64xf8E4M3FN>
// CHOOSE-DAG: scalify.quantize %arg1, {{.*}}scalify.proved = {{.*}} -> tensor<4x64xf8E5M2>
// CHECK-DAG: scalify.quantize %arg2, {{.*}}scalify.unproved = {{.*}} -> tensor<4x64xf8E4M3FN>

// Under strict the dot on %c stays wide, and says why.
// STRICT-LABEL: func.func @main(
// STRICT-DAG: scalify.quantize %arg0, {{.*}} -> tensor<4x64xf8E4M3FN>
// STRICT-DAG: scalify.quantize %arg1, {{.*}} -> tensor<4x64xf8E5M2>
// STRICT-NOT: scalify.quantize %arg2
// STRICT: stablehlo.dot_general %arg2, {{.*}}scalify.wide = #scalify.decision<"range", "not proved to fit f8E4M3FN: no bound: argument 'arg2' without a declared range"

// DECIDED-LABEL: func.func @main(
// DECIDED: scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>}
// DECIDED: scalify.formats = #scalify.formats<f8E5M2, f8E4M3FN>}
// DECIDED: scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>, scalify.wide = #scalify.decision<"range"
func.func @main(%a: tensor<4x64xf32> {scalify.range = {max = 100.0}},
                %b: tensor<4x64xf32> {scalify.range = {max = 5000.0}},
                %c: tensor<4x64xf32>,
                %w: tensor<64x8xf32> {scalify.range = {max = 1.0}},
                %v: tensor<8x2xf32> {scalify.range = {max = 1.0}}) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %x = scalify.scale_hint %a, %one : tensor<4x64xf32>
  %y = scalify.scale_hint %b, %one : tensor<4x64xf32>
  %z = scalify.scale_hint %c, %one : tensor<4x64xf32>
  %u = scalify.scale_hint %w, %one : tensor<64x8xf32>
  %0 = stablehlo.dot_general %x, %u, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %1 = stablehlo.dot_general %y, %u, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %2 = stablehlo.dot_general %z, %u, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %h0 = scalify.scale_hint %0, %one : tensor<4x8xf32>
  %h1 = scalify.scale_hint %1, %one : tensor<4x8xf32>
  %h2 = scalify.scale_hint %2, %one : tensor<4x8xf32>
  %hv = scalify.scale_hint %v, %one : tensor<8x2xf32>
  %3 = stablehlo.dot_general %h0, %hv, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %4 = stablehlo.dot_general %h1, %hv, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %5 = stablehlo.dot_general %h2, %hv, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %3, %4, %5 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}
