// RUN: scalify-opt %s --scalify-sum-behind-loops --verify-diagnostics | FileCheck %s

// What starts from another value would have it once for each rank.

sdy.mesh @mesh = <["data"=2]>

// CHECK: do {
// CHECK: all_reduce
// CHECK-NOT: all_reduce
func.func @main(%g: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    // expected-remark @+1 {{stays in its loop: the accumulator or stack does not start from zero}}
    %1 = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.add %sum, %1 : tensor<4xf32>
    %7 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %7, %2 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
