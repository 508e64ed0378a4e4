// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-convolutions))' | FileCheck %s

// CHECK-LABEL: func.func @plain
// CHECK: %[[W:.*]] = plan.windows %arg0 dims [1] sizes [4] strides [1] dilations [1] {scalify.phase = #scalify.phase<forward>} : tensor<2x10x3xf32> -> tensor<2x7x3x4xf32>
// CHECK: %[[T:.*]] = stablehlo.transpose %[[W]], dims = [0, 1, 3, 2]
// CHECK: %[[Y:.*]] = stablehlo.dot_general %[[T]], %arg1, contracting_dims = [2, 3] x [0, 1] {scalify.phase = #scalify.phase<forward>} : (tensor<2x7x4x3xf32>, tensor<4x3x5xf32>) -> tensor<2x7x5xf32>
// CHECK: return %[[Y]]
func.func @plain(%x: tensor<2x10x3xf32>, %k: tensor<4x3x5xf32>) -> tensor<2x7x5xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64, scalify.phase = #scalify.phase<forward>}
    : (tensor<2x10x3xf32>, tensor<4x3x5xf32>) -> tensor<2x7x5xf32>
  return %y : tensor<2x7x5xf32>
}

// Edges and holes are filled up with zeros, a stride is the windows', and the
// result's features go where they are wanted.
// CHECK-LABEL: func.func @strided
// CHECK: %[[P:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0, 1], high = [0, 0, 2], interior = [0, 0, 1] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3x12xf32>
// CHECK: plan.windows %[[P]] dims [2] sizes [2] strides [3] dilations [4] : tensor<2x3x12xf32> -> tensor<2x3x3x2xf32>
// CHECK: %[[D:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [2, 3] x [1, 2] : (tensor<2x3x3x2xf32>, tensor<7x3x2xf32>) -> tensor<2x3x7xf32>
// CHECK: stablehlo.transpose %[[D]], dims = [0, 2, 1]
func.func @strided(%x: tensor<2x3x5xf32>, %k: tensor<7x3x2xf32>) -> tensor<2x7x3xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {stride = [3], pad = [[1, 2]], lhs_dilate = [2], rhs_dilate = [4]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x5xf32>, tensor<7x3x2xf32>) -> tensor<2x7x3xf32>
  return %y : tensor<2x7x3xf32>
}

// Groups are a batch of products.
// CHECK-LABEL: func.func @groups
// CHECK: stablehlo.reshape %arg0 : (tensor<2x10x6xf32>) -> tensor<2x10x2x3xf32>
// CHECK: stablehlo.dot_general {{.*}} batching_dims = [0] x [0], contracting_dims = [3, 4] x [1, 2] : (tensor<2x2x7x4x3xf32>, tensor<2x4x3x5xf32>) -> tensor<2x2x7x5xf32>
// CHECK: stablehlo.reshape {{.*}} -> tensor<2x7x10xf32>
func.func @groups(%x: tensor<2x10x6xf32>, %k: tensor<4x3x10xf32>) -> tensor<2x7x10xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<2x10x6xf32>, tensor<4x3x10xf32>) -> tensor<2x7x10xf32>
  return %y : tensor<2x7x10xf32>
}

// A feature a group is no matrix.
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT: dot_general
// CHECK: %[[P:.*]] = stablehlo.multiply %{{.*}}, %{{.*}} : tensor<6x2x7x4x1xf32>
// CHECK: stablehlo.reduce(%[[P]] init: %{{.*}}) applies stablehlo.add across dimensions = [3, 4]
func.func @depthwise(%x: tensor<2x10x6xf32>, %k: tensor<4x1x6xf32>) -> tensor<2x7x6xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 6 : i64}
    : (tensor<2x10x6xf32>, tensor<4x1x6xf32>) -> tensor<2x7x6xf32>
  return %y : tensor<2x7x6xf32>
}
