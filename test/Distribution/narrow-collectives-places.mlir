// RUN: scalify-opt %s --scalify-narrow-collectives --split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=2, "tensor"=2]>

// Random words are those of places in the whole: a share of a run of elements
// starts where the shares before it end.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[SHARE:.*]]: tensor<4xf32>{{.*}}, %[[STEP:.*]]: tensor<2xui32>)
// CHECK: %[[TABLE:.*]] = stablehlo.constant dense<{{\[\[}}0], [0], [4], [4]]> : tensor<4x1xi32>
// CHECK: stablehlo.partition_id
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[TABLE]]
// CHECK: %[[FIRST:.*]] = stablehlo.reshape %[[ROW]] : (tensor<1x1xi32>) -> tensor<i32>
// CHECK: %[[CAST:.*]] = scalify.quantize %[[SHARE]], %{{.*}} at %[[STEP]] from %[[FIRST]] {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<4xf32> -> tensor<4xf16>
// CHECK: "stablehlo.all_gather"(%[[CAST]]) {{.*}} -> tensor<8xf16>
// CHECK: stablehlo.slice %{{.*}} [0:6]
// CHECK: %[[ROWS:.*]] = stablehlo.reshape %{{.*}} -> tensor<2x3xf16>
// CHECK: return %[[ROWS]]
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}, %step: tensor<2xui32>) -> tensor<2x3xf16> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.slice %0 [0:6] : (tensor<8xf32>) -> tensor<6xf32>
  %2 = stablehlo.reshape %1 : (tensor<6xf32>) -> tensor<2x3xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %3 = scalify.quantize %2, %scale at %step {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<2x3xf32> -> tensor<2x3xf16>
  return %3 : tensor<2x3xf16>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// A share of columns starts in the whole's first row, which is as long as all
// shares' rows.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.constant dense<{{\[\[}}0], [3]]> : tensor<2x1xi32>
// CHECK: scalify.quantize %{{.*}} from %{{.*}} {rounding = #scalify.rounding<stochastic>, stream = 6 : i64, whole = array<i64: 4, 6>} : tensor<4x3xf32> -> tensor<4x3xf16>
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<4x6xf16>
func.func @main(%share: tensor<4x3xf32> {scalify.whole_type = tensor<4x6xf32>}) -> tensor<4x6xf16> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %1 = scalify.quantize %0, %scale {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<4x6xf32> -> tensor<4x6xf16>
  return %1 : tensor<4x6xf16>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Shares of each slice of a stack, filled up behind each: the whole is what is
// left, and what fills up has words that nobody reads.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.constant dense<{{\[\[}}0], [3]]> : tensor<2x1xi32>
// CHECK: scalify.quantize %{{.*}} from %{{.*}} {rounding = #scalify.rounding<stochastic>, stream = 6 : i64, whole = array<i64: 4, 5>} : tensor<4x3xf32> -> tensor<4x3xf16>
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<4x6xf16>
// CHECK: stablehlo.slice {{.*}} : (tensor<4x6xf16>) -> tensor<4x5xf16>
func.func @main(%share: tensor<4x3xf32> {scalify.whole_type = tensor<4x6xf32>}) -> tensor<4x5x1xf16> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.slice %0 [0:4, 0:5] : (tensor<4x6xf32>) -> tensor<4x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x5xf32>) -> tensor<4x5x1xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %3 = scalify.quantize %2, %scale {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<4x5x1xf32> -> tensor<4x5x1xf16>
  return %3 : tensor<4x5x1xf16>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Of rows from the second on: the first share's first row is before them.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.constant dense<{{\[\[}}-6], [6]]> : tensor<2x1xi32>
// CHECK: scalify.quantize {{.*}} : tensor<2x6xf32> -> tensor<2x6xf16>
func.func @main(%share: tensor<2x6xf32> {scalify.whole_type = tensor<4x6xf32>}) -> tensor<3x6xf16> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2x6xf32>) -> tensor<4x6xf32>
  %1 = stablehlo.slice %0 [1:4, 0:6] : (tensor<4x6xf32>) -> tensor<3x6xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %2 = scalify.quantize %1, %scale {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<3x6xf32> -> tensor<3x6xf16>
  return %2 : tensor<3x6xf16>
}
