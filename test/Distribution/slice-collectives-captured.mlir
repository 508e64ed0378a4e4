// RUN: scalify-opt %s --scalify-slice-collectives | FileCheck %s

// A loop sums over ranks what is computed of a stack that another loop wrote
// before it: no slice of it is made here, and the sum stays whole.
// CHECK: stablehlo.while
// CHECK: stablehlo.while
// CHECK: "stablehlo.all_reduce"(%{{.*}}) {{.*}}
// CHECK: (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @main(%g: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<4x8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %d = stablehlo.dynamic_slice %g, %i, %i0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %a = stablehlo.dynamic_update_slice %s, %d, %i, %i0 : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<4x8xf32>
    }
  %1:2 = stablehlo.while(%i = %i0, %s = %z) : tensor<i32>, tensor<4x8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %m = stablehlo.multiply %0#1, %0#1 : tensor<4x8xf32>
      %r = "stablehlo.all_reduce"(%m) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %mm = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %mm : tensor<f32>
      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %a = stablehlo.add %s, %r : tensor<4x8xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %a : tensor<i32>, tensor<4x8xf32>
    }
  return %1#1 : tensor<4x8xf32>
}
