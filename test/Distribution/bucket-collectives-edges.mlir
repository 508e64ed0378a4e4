// RUN: scalify-opt %s --scalify-bucket-collectives=bytes=32 --split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=2]>

// The last bucket of sums is a quarter: nothing is left to be computed beside it.
// CHECK-LABEL: func.func @main(
// CHECK: stablehlo.concatenate
// CHECK: "stablehlo.all_reduce"(%{{.*}}) {{.*}}handle = 1
// CHECK: (tensor<7xf32>) -> tensor<7xf32>
// CHECK-NOT: concatenate
// CHECK: "stablehlo.all_reduce"(%{{.*}}) {{.*}}handle = 3
func.func @main(%a: tensor<4xf32>, %b: tensor<3xf32>, %c: tensor<2xf32>) -> (tensor<4xf32>, tensor<3xf32>, tensor<2xf32>) {
  %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "stablehlo.all_reduce"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<3xf32>, tensor<2xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// So is the first one of gathers: nothing can be computed before it is there.
// CHECK-LABEL: func.func @main(
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}}handle = 1
// CHECK: stablehlo.concatenate
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}}handle = 2
// CHECK-SAME: (tensor<7xf32>) -> tensor<14xf32>
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<6xf32>, tensor<8xf32>) {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %1 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<3xf32>) -> tensor<6xf32>
  %2 = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<6xf32>, tensor<8xf32>
}
