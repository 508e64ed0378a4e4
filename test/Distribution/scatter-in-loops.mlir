// RUN: scalify-opt %s --scalify-scatter-in-loops -split-input-file | FileCheck %s

// A sum that a loop adds up, filled up with zeros for two ranks: the loop adds
// up shares.
// CHECK-LABEL: func.func @main
// CHECK: %[[LOOP:.*]]:2 = stablehlo.while({{.*}}) : tensor<i32>, tensor<6xf32>
// CHECK: %[[PAD:.*]] = stablehlo.pad {{.*}} -> tensor<12xf32>
// CHECK: %[[PART:.*]] = "stablehlo.reduce_scatter"(%[[PAD]])
// CHECK: stablehlo.add %{{.*}}, %[[PART]] : tensor<6xf32>
// CHECK: }
// CHECK: return %[[LOOP]]#1
func.func @main(%g: tensor<4x8xf32>, %pv: tensor<f32>) -> tensor<6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %pz = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %d = stablehlo.dynamic_slice %g, %i, %i0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8xf32>) -> tensor<8xf32>
      %a = stablehlo.add %s, %e : tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
  %pad = stablehlo.pad %0#1, %pz, low = [0], high = [4], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %r = "stablehlo.reduce_scatter"(%pad) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<12xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// Ones would be added once in each iteration.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.return {{.*}} : tensor<i32>, tensor<8xf32>
// CHECK: "stablehlo.reduce_scatter"
func.func @main(%g: tensor<4x8xf32>, %pv: tensor<f32>) -> tensor<6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %d = stablehlo.dynamic_slice %g, %i, %i0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8xf32>) -> tensor<8xf32>
      %a = stablehlo.add %s, %e : tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
  %pad = stablehlo.pad %0#1, %c, low = [0], high = [4], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %r = "stablehlo.reduce_scatter"(%pad) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<12xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// What an argument fills up with may be anything.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.return {{.*}} : tensor<i32>, tensor<8xf32>
// CHECK: "stablehlo.reduce_scatter"
func.func @main(%g: tensor<4x8xf32>, %pv: tensor<f32>) -> tensor<6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %d = stablehlo.dynamic_slice %g, %i, %i0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8xf32>) -> tensor<8xf32>
      %a = stablehlo.add %s, %e : tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
  %pad = stablehlo.pad %0#1, %pv, low = [0], high = [4], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %r = "stablehlo.reduce_scatter"(%pad) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<12xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// -----

// The largest of sums is no sum of the largest.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.return {{.*}} : tensor<i32>, tensor<8xf32>
// CHECK: "stablehlo.reduce_scatter"
func.func @main(%g: tensor<4x8xf32>, %pv: tensor<f32>) -> tensor<6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %pz = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %d = stablehlo.dynamic_slice %g, %i, %i0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8xf32>) -> tensor<8xf32>
      %a = stablehlo.add %s, %e : tensor<8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<8xf32>
    }
  %pad = stablehlo.pad %0#1, %pz, low = [0], high = [4], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %r = "stablehlo.reduce_scatter"(%pad) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<12xf32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}
