// RUN: scalify-compile %s --recipe=fp8 --target=stablehlo -o %t 2>&1 | FileCheck %s
// RUN: scalify-compile %s --recipe=bf16 --target=stablehlo -o %t 2>&1 | FileCheck %s --check-prefix=NARROW --allow-empty

// Convolutions are wide by the preset, which would be said nowhere else.
// CHECK: warning: recipe 'fp8' leaves 1 of 1 products wide, 100 % of their FLOPs: 1 by 'convolution' ('convolution = true' in the recipe casts them)
// NARROW-NOT: FLOPs
func.func public @main(%x: tensor<1x8x8x4xf32>, %k: tensor<3x3x4x4xf32>) -> tensor<1x6x6x4xf32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x4xf32>, tensor<3x3x4x4xf32>) -> tensor<1x6x6x4xf32>
  %1 = stablehlo.tanh %0 : tensor<1x6x6x4xf32>
  return %1 : tensor<1x6x6x4xf32>
}
