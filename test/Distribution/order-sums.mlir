// RUN: scalify-opt %s --scalify-order-sums --split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-order-sums=gather-bytes=0 --split-input-file | FileCheck %s --check-prefix=PIECES

sdy.mesh @mesh = <["data"=2]>

// Of few bytes all ranks get all, and sum in F32, rounded once. From -0 on, so
// that a sum of two -0 is -0.
// CHECK-LABEL: func.func @main
// CHECK: %[[FLAT:.*]] = stablehlo.reshape %{{.*}} {scalify.phase = #scalify.phase<backward>} : (tensor<3x5xbf16>) -> tensor<15xbf16>
// CHECK: %[[GOT:.*]] = "stablehlo.all_gather"(%[[FLAT]]) <{all_gather_dim = 0 : i64, {{.*}}> {scalify.phase = #scalify.phase<backward>} : (tensor<15xbf16>) -> tensor<30xbf16>
// CHECK: %[[PARTS:.*]] = stablehlo.reshape %[[GOT]] {{.*}} -> tensor<2x15xbf16>
// CHECK: %[[WIDE:.*]] = stablehlo.convert %[[PARTS]] {{.*}} -> tensor<2x15xf32>
// CHECK: %[[START:.*]] = stablehlo.constant {{.*}}dense<-0.000000e+00>
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[WIDE]] init: %[[START]]) applies stablehlo.add across dimensions = [0] {scalify.in_order, scalify.phase = #scalify.phase<backward>}
// CHECK: %[[OWN:.*]] = stablehlo.convert %[[SUM]] {scalify.in_order, scalify.phase = #scalify.phase<backward>} : (tensor<15xf32>) -> tensor<15xbf16>
// CHECK: %[[SHAPED:.*]] = stablehlo.reshape %[[OWN]] {{.*}} -> tensor<3x5xbf16>
// CHECK: return %[[SHAPED]]
//
// Of more each rank sums a piece: filled up, exchanged, summed, gathered.
// PIECES-LABEL: func.func @main
// PIECES: %[[FILLED:.*]] = stablehlo.pad %{{.*}} low = [0], high = [1], {{.*}} -> tensor<16xbf16>
// PIECES: %[[GOT:.*]] = "stablehlo.all_to_all"(%[[FILLED]]) {{.*}} : (tensor<16xbf16>) -> tensor<16xbf16>
// PIECES: %[[CUT:.*]] = stablehlo.reshape %[[GOT]] {{.*}} -> tensor<2x8xbf16>
// PIECES: %[[WIDE:.*]] = stablehlo.convert %[[CUT]]
// PIECES: %[[SUM:.*]] = stablehlo.reduce(%[[WIDE]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] {scalify.in_order
// PIECES: %[[OWN:.*]] = stablehlo.convert %[[SUM]] {scalify.in_order
// PIECES: %[[ALL:.*]] = "stablehlo.all_gather"(%[[OWN]]) {{.*}} : (tensor<8xbf16>) -> tensor<16xbf16>
// PIECES: stablehlo.slice %[[ALL]] [0:15]
func.func @main(%x: tensor<3x5xbf16>) -> tensor<3x5xbf16> {
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %s : tensor<bf16>
  }) {scalify.phase = #scalify.phase<backward>} : (tensor<3x5xbf16>) -> tensor<3x5xbf16>
  return %0 : tensor<3x5xbf16>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// A part of a reduce-scatter is summed as it comes.
// CHECK-LABEL: func.func @main
// CHECK: %[[TURNED:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0, 2] : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[GOT:.*]] = "stablehlo.all_to_all"(%[[TURNED]]) {{.*}}concat_dimension = 0 : i64, {{.*}} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[GOT]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] {scalify.in_order}
// CHECK: return %[[SUM]] : tensor<3x4xf32>
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x8xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// What has the same bits in any order stays the transport's: maxima, integers.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: "stablehlo.all_reduce"
// CHECK-NOT: stablehlo.reduce(
func.func @main(%x: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "stablehlo.all_reduce"(%n) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4xi32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xf32>, tensor<4xi32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// And one that has an empty operand: nothing of it is written anew.
// CHECK-LABEL: func.func @main
// CHECK-NOT: all_gather
// CHECK: "stablehlo.all_reduce"(%{{.*}}, %{{.*}})
func.func @main(%x: tensor<4xf32>, %n: tensor<0xf32>) -> (tensor<4xf32>, tensor<0xf32>) {
  %0:2 = "stablehlo.all_reduce"(%x, %n) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<0xf32>) -> (tensor<4xf32>, tensor<0xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<0xf32>
}
