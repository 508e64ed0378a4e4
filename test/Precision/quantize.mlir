// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8 remarks=0" --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s --implicit-check-not=scalify.formats --implicit-check-not=scalify.dot_role
// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8-current remarks=0" --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s --check-prefix=CURRENT

// The input is cast once for the forward dot and the weight gradient, the
// transpose moves FP8 data, and the gradient is cast to E5M2.
// CHECK-LABEL: func.func @linear
// CURRENT-LABEL: func.func @linear
func.func @linear(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x3xf32>, %g: tensor<4x8xf32>)
    -> (tensor<4x3xf32>, tensor<64x8xf32>, tensor<4x64xf32>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  // CHECK-DAG: %[[QX:.*]] = scalify.quantize %arg0, {{.*}} -> tensor<4x64xf8E4M3FN>
  // CHECK-DAG: %[[QW:.*]] = scalify.quantize %arg1, {{.*}} -> tensor<64x8xf8E4M3FN>
  // CHECK: %[[G:.*]] = stablehlo.negate
  // CHECK: %[[QG:.*]] = scalify.quantize %[[G]], {{.*}} -> tensor<4x8xf8E5M2>
  // CURRENT-COUNT-3: applies stablehlo.maximum
  %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
  %a = scalify.scale_hint %x, %s : tensor<4x64xf32>
  %b = scalify.scale_hint %w, %s : tensor<64x8xf32>
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  // The head: no dot follows it.
  %c = scalify.scale_hint %y, %s : tensor<4x8xf32>
  %d = scalify.scale_hint %v, %s : tensor<8x3xf32>
  // CHECK: scalify.quantize {{.*}} -> tensor<4x8xbf16>
  %z = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  // CHECK: stablehlo.transpose %[[QX]], dims = [1, 0] {{.*}}(tensor<4x64xf8E4M3FN>) -> tensor<64x4xf8E4M3FN>
  // CHECK-NOT: scalify.quantize
  // CHECK-NOT: scalify.scale_hint
  %xt = stablehlo.transpose %x, dims = [1, 0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x64xf32>) -> tensor<64x4xf32>
  %e = scalify.scale_hint %xt, %s : tensor<64x4xf32>
  %f = scalify.scale_hint %dy, %s : tensor<4x8xf32>
  %dw = stablehlo.dot_general %e, %f, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x4xf32>, tensor<4x8xf32>) -> tensor<64x8xf32>
  %h = scalify.scale_hint %dy, %s : tensor<4x8xf32>
  %i = scalify.scale_hint %w, %s : tensor<64x8xf32>
  %dx = stablehlo.dot_general %h, %i, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<64x8xf32>) -> tensor<4x64xf32>
  return %z, %dw, %dx : tensor<4x3xf32>, tensor<64x8xf32>, tensor<4x64xf32>
}
