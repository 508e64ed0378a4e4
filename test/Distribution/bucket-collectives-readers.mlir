// RUN: scalify-opt %s --scalify-bucket-collectives=bytes=128 -split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=2]>

// The first bucket, of a quarter, has what products read first, whatever the
// order of the gathers: %b, which is negated before, and %c. It goes before that
// of %a and %d, though %a was gathered first.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>, %[[C:[^:]*]]: tensor<4xf32>, %[[D:[^:]*]]: tensor<4xf32>,
// CHECK-DAG: %[[RB:.*]] = stablehlo.reshape %[[B]]
// CHECK-DAG: %[[RC:.*]] = stablehlo.reshape %[[C]]
// CHECK: %[[BC:.*]] = stablehlo.concatenate %[[RB]], %[[RC]], dim = 1
// CHECK: %[[FIRST:.*]] = stablehlo.reshape %[[BC]]
// CHECK: "stablehlo.all_gather"(%[[FIRST]])
// CHECK-DAG: %[[RA:.*]] = stablehlo.reshape %[[A]]
// CHECK-DAG: %[[RD:.*]] = stablehlo.reshape %[[D]]
// CHECK: %[[AD:.*]] = stablehlo.concatenate %[[RA]], %[[RD]], dim = 1
// CHECK: %[[SECOND:.*]] = stablehlo.reshape %[[AD]]
// CHECK: "stablehlo.all_gather"(%[[SECOND]])
// CHECK-NOT: "stablehlo.all_gather"
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %d: tensor<4xf32>, %x: tensor<8xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %2 = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %3 = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %4 = stablehlo.negate %1 : tensor<8xf32>
  %5 = stablehlo.dot_general %x, %4, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %6 = stablehlo.dot_general %x, %2, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %7 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %8 = stablehlo.dot_general %x, %3, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  return %5, %6, %7, %8 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// What is as large as a bucket goes alone, when it is read, and closes none: the
// two small arrays, read before and behind the first large one, are one bucket.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[LAST:[^:]*]]: tensor<32xf32>, %[[FIRST:[^:]*]]: tensor<32xf32>, %[[A:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>,
// CHECK: stablehlo.concatenate {{.*}} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
// CHECK: "stablehlo.all_gather"
// CHECK: "stablehlo.all_gather"(%[[FIRST]])
// CHECK: "stablehlo.all_gather"(%[[LAST]])
// CHECK-NOT: "stablehlo.all_gather"
func.func @main(%last: tensor<32xf32>, %first: tensor<32xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>, %x: tensor<8xf32>, %y: tensor<64xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = "stablehlo.all_gather"(%last) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<32xf32>) -> tensor<64xf32>
  %1 = "stablehlo.all_gather"(%first) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<32xf32>) -> tensor<64xf32>
  %2 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %3 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %4 = stablehlo.dot_general %x, %2, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %5 = stablehlo.dot_general %y, %1, contracting_dims = [0] x [0] : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
  %6 = stablehlo.dot_general %x, %3, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %7 = stablehlo.dot_general %y, %0, contracting_dims = [0] x [0] : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
  return %4, %5, %6, %7 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
