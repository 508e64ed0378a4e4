// RUN: scalify-opt %s --scalify-bucket-collectives --split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-bucket-collectives=bytes=0 --split-input-file | FileCheck %s --check-prefix=NONE
// RUN: scalify-opt %s --scalify-bucket-collectives=bytes=16 --split-input-file | FileCheck %s --check-prefix=NONE

sdy.mesh @mesh = <["data"=2]>

// A rank gives its shares of both arrays, one behind the other.
// CHECK-LABEL: func.func @main(
// CHECK: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<1x2xf32>, tensor<1x3xf32>) -> tensor<1x5xf32>
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}} : (tensor<5xf32>) -> tensor<10xf32>
// CHECK: stablehlo.slice %{{.*}} [0:2, 0:2] : (tensor<2x5xf32>) -> tensor<2x2xf32>
// CHECK: stablehlo.slice %{{.*}} [0:2, 2:5] : (tensor<2x5xf32>) -> tensor<2x3xf32>
// CHECK-NOT: all_gather
// NONE-LABEL: func.func @main(
// NONE-COUNT-2: all_gather
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  %2 = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<3xf32>) -> tensor<6xf32>
  return %1, %2 : tensor<4xf32>, tensor<6xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Sums go when the last of their arrays is there; what follows from the first
// one alone goes behind. The other kind of sum goes by itself.
// CHECK-LABEL: func.func @main(
// CHECK: stablehlo.tanh
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.maximum
// CHECK: stablehlo.cosine
// CHECK: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<1x4xf32>, tensor<1x1xf32>) -> tensor<1x5xf32>
// CHECK: "stablehlo.all_reduce"
// CHECK: stablehlo.negate
func.func @main(%a: tensor<2x2xf32>, %b: tensor<f32>) -> (tensor<2x2xf32>, tensor<f32>, tensor<f32>) {
  %c = stablehlo.tanh %a : tensor<2x2xf32>
  %0 = "stablehlo.all_reduce"(%c) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.negate %0 : tensor<2x2xf32>
  %2 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  %d = stablehlo.cosine %2 : tensor<f32>
  %3 = "stablehlo.all_reduce"(%d) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  return %1, %2, %3 : tensor<2x2xf32>, tensor<f32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// What needs the sum of another cannot go with it.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: concatenate
// CHECK-COUNT-2: all_reduce
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.negate %0 : tensor<2xf32>
  %3 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
