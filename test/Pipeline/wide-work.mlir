// RUN: scalify-compile %s --recipe=fp8 --target=stablehlo -o %t 2>&1 | FileCheck %s
// RUN: scalify-compile %s --recipe='#scalify.recipe<"fp16", product = true>' --target=stablehlo -o %t 2>&1 | FileCheck %s --check-prefix=NARROW --allow-empty

// Products of activations without a softmax are wide by the preset, which would
// be said nowhere else.
// CHECK: warning: recipe 'fp8' leaves 2 of 2 products wide, 100 % of their FLOPs: 2 by 'product' ('product = true' in the recipe casts them)
// NARROW-NOT: FLOPs
func.func public @main(%x: tensor<2x8x4xf32>, %g: tensor<2x8x8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x4xf32>) {
  %a = stablehlo.tanh %x : tensor<2x8x4xf32>
  %b = stablehlo.sine %x : tensor<2x8x4xf32>
  %y = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x8xf32>
  %d = stablehlo.cosine %g : tensor<2x8x8xf32> loc(#backward)
  %e = stablehlo.dot_general %d, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x8x8xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32> loc(#backward)
  return %y, %e : tensor<2x8x8xf32>, tensor<2x8x4xf32>
}
#backward = loc("jit(step)/transpose(jvp(loss))/dot_general")
