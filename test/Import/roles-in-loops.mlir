// RUN: scalify-opt %s --scalify-annotate-roles | FileCheck %s

// A loop over micro-batches counts as backward, since gradients come out of it;
// the parameters that its forward reads are parameters all the same.

// CHECK: func.func public @main(%{{.*}}: tensor<4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32}
// CHECK-SAME: %{{.*}}: tensor<4xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 1 : i32}
func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
  %0:3 = stablehlo.while(%i = %zero, %weight = %w, %sum = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32> attributes {scalify.phase = #scalify.phase<backward>}
  cond {
    %n = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.tanh %weight {scalify.phase = #scalify.phase<forward>} : tensor<4xf32>
    %2 = stablehlo.multiply %1, %1 {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
    %3 = stablehlo.add %sum, %2 {scalify.phase = #scalify.phase<backward>} : tensor<4xf32>
    %4 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %4, %weight, %3 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  %5 = stablehlo.add %m, %0#2 {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  %6 = stablehlo.subtract %w, %5 {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  return %6, %5 : tensor<4xf32>, tensor<4xf32>
}
