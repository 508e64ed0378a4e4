// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// Sums over ranks, of what has mean zero: sqrt(16) = 2^2 of sixteen.
// CHECK-LABEL: func.func @sum
func.func @sum(%x: tensor<32x6xf32> {scalify.scale = 1 : i32}) -> (tensor<32x6xf32>, tensor<2x6xf32>) {
  // CHECK: "stablehlo.all_reduce"
  // CHECK: scalify.rule = "all_reduce add over 16", scalify.scale = 3 : i32
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<32x6xf32>
  // CHECK: "stablehlo.reduce_scatter"
  // CHECK: scalify.rule = "reduce_scatter add over 16", scalify.scale = 3 : i32
  %1 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>, scatter_dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<2x6xf32>
  return %0, %1 : tensor<32x6xf32>, tensor<2x6xf32>
}

// -----

// Of what is not negative: its mean is 2^2, and sixteen of these are 2^6.
// CHECK-LABEL: func.func @sum_of_squares
func.func @sum_of_squares(%x: tensor<32x6xf32> {scalify.scale = 1 : i32}) -> (tensor<32x6xf32>, tensor<2x6xf32>) {
  %square = stablehlo.multiply %x, %x : tensor<32x6xf32>
  // CHECK: "stablehlo.all_reduce"
  // CHECK: scalify.rule = "all_reduce add over 16", scalify.scale = 6 : i32
  %0 = "stablehlo.all_reduce"(%square) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<32x6xf32>
  // CHECK: "stablehlo.reduce_scatter"
  // CHECK: scalify.rule = "reduce_scatter add over 16", scalify.scale = 6 : i32
  %1 = "stablehlo.reduce_scatter"(%square) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>, scatter_dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<2x6xf32>
  return %0, %1 : tensor<32x6xf32>, tensor<2x6xf32>
}

// -----

// A group is who sums, and not all ranks that there are: eight of sixteen.
// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<32x6xf32> {scalify.scale = 1 : i32}) -> tensor<32x6xf32> {
  %square = stablehlo.multiply %x, %x : tensor<32x6xf32>
  // CHECK: "stablehlo.all_reduce"
  // CHECK: scalify.rule = "all_reduce add over 8", scalify.scale = 5 : i32
  %0 = "stablehlo.all_reduce"(%square) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<2x8xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<32x6xf32>
  return %0 : tensor<32x6xf32>
}

// -----

// The largest of sixteen normal numbers is 1.77 deviations, 2^0.8, on average.
// CHECK-LABEL: func.func @maximum
func.func @maximum(%x: tensor<32x6xf32> {scalify.scale = 3 : i32}) -> (tensor<32x6xf32>, tensor<2x6xf32>) {
  // CHECK: "stablehlo.all_reduce"
  // CHECK: scalify.rule = "all_reduce maximum over 16", scalify.scale = 4 : i32
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<32x6xf32>
  // CHECK: "stablehlo.reduce_scatter"
  // CHECK: scalify.rule = "reduce_scatter maximum over 16", scalify.scale = 4 : i32
  %1 = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]]> : tensor<1x16xi64>, scatter_dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<32x6xf32>) -> tensor<2x6xf32>
  return %0, %1 : tensor<32x6xf32>, tensor<2x6xf32>
}

// -----

// What only moves keeps its scale.
// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<8x6xf32> {scalify.scale = -5 : i32}) -> (tensor<32x6xf32>, tensor<16x3xf32>, tensor<8x6xf32>, tensor<8x6xf32>) {
  // CHECK: "stablehlo.all_gather"{{.*}}scalify.rule = "all_gather", scalify.scale = -5 : i32
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<8x6xf32>) -> tensor<32x6xf32>
  // CHECK: "stablehlo.all_to_all"{{.*}}scalify.rule = "all_to_all", scalify.scale = -5 : i32
  %1 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<8x6xf32>) -> tensor<16x3xf32>
  // CHECK: "stablehlo.collective_permute"{{.*}}scalify.rule = "collective_permute", scalify.scale = -5 : i32
  %2 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<8x6xf32>) -> tensor<8x6xf32>
  // CHECK: "stablehlo.collective_broadcast"{{.*}}scalify.rule = "collective_broadcast", scalify.scale = -5 : i32
  %3 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0, %1, %2, %3 : tensor<32x6xf32>, tensor<16x3xf32>, tensor<8x6xf32>, tensor<8x6xf32>
}

// -----

// What fills up ranks' shares has no say in the scale; other zeros have.
// CHECK-LABEL: func.func @fills
func.func @fills(%x: tensor<1xf32> {scalify.scale = 3 : i32}) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.pad {{.*}}scalify.rule = "pad: fills up shares", scalify.scale = 3 : i32
  %0 = stablehlo.pad %x, %zero, low = [0], high = [7], interior = [0] {scalify.fills_shares} : (tensor<1xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.pad {{.*}}scalify.rule = "pad: density of the operand", scalify.scale = 2 : i32
  %1 = stablehlo.pad %x, %zero, low = [0], high = [7], interior = [0] : (tensor<1xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
