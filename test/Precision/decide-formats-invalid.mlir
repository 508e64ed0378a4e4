// RUN: not scalify-opt %s --scalify-decide-formats=recipe=fp9 2>&1 | FileCheck %s --check-prefix=RECIPE
// RUN: not scalify-opt %s --scalify-decide-formats=strict 2>&1 | FileCheck %s --check-prefix=STRICT

// RECIPE: error: unknown recipe 'fp9': expected one of none, fp16, bf16, fp8, fp8-current
// Each of the two dots, with its reason and its place.
// STRICT: decide-formats-invalid.mlir:[[#@LINE+3]]:{{.*}} error: 'stablehlo.dot_general' op stays wide under a strict recipe: scale: an operand has none (run scalify-propagate first)
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {
func.func @unscaled(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  // STRICT: decide-formats-invalid.mlir:[[#@LINE+1]]:{{.*}} error: 'stablehlo.dot_general' op stays wide under a strict recipe: scale: an operand has none (run scalify-propagate first)
  %z = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %z : tensor<4x2xf32>
}
}
