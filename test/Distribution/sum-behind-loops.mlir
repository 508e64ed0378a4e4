// RUN: scalify-opt %s --scalify-sum-behind-loops | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: scalify-opt %s --scalify-sum-behind-loops=stacks=false | FileCheck %s --check-prefixes=CHECK,SUMS

// A sum of micro-batches (carry 1) and a stack of layers' gradients (carry 2),
// which JAX sums along a dimension of one element where rows were added to.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK: %[[LOOP:.*]]:3 = stablehlo.while
// CHECK: do {
// ALL-NOT: all_reduce
// SUMS: "stablehlo.all_reduce"(%{{.*}}) {{.*}}handle = 2
// CHECK: stablehlo.dynamic_update_slice
// CHECK: stablehlo.return
// CHECK: }
// ALL: "stablehlo.all_reduce"(%[[LOOP]]#2) {{.*}}handle = 2
// CHECK: "stablehlo.all_reduce"(%[[LOOP]]#1) {{.*}}handle = 1
func.func @main(%g: tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sums = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
  %stack = stablehlo.constant dense<0.000000e+00> : tensor<3x4xf32>
  %0:3 = stablehlo.while(%i = %zero, %sum = %sums, %rows = %stack) : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %first = stablehlo.constant dense<0> : tensor<i32>
    %1 = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.add %sum, %1 : tensor<4xf32>
    %3 = stablehlo.negate %g : tensor<4xf32>
    %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %9 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %row = stablehlo.reshape %4 : (tensor<4xf32>) -> tensor<1x4xf32>
    %none = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %column = stablehlo.reduce(%row init: %none) applies stablehlo.add across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
    %5 = stablehlo.reshape %column : (tensor<4xf32>) -> tensor<1x4xf32>
    %6 = stablehlo.dynamic_update_slice %rows, %5, %i, %first : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %7 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %7, %2, %6 : tensor<i32>, tensor<4xf32>, tensor<3x4xf32>
  }
  return %0#1, %0#2 : tensor<4xf32>, tensor<3x4xf32>
}
