// RUN: scalify-opt %s --scalify-split-stacks --split-input-file | FileCheck %s

// The sum of micro-batches' gradients, of which each layer's is sent: the last
// layer's stands before the first one's product.

// CHECK-LABEL: func.func @main
// CHECK: %[[LAST:.*]] = stablehlo.dot_general
// CHECK: %[[OLD:.*]] = stablehlo.slice %[[ACC:.*]] [1:2, 0:8]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[OLD]], %[[LAST]] : tensor<1x8xf32>
// CHECK: plan.communicate all_reduce sum %[[SUM]]
// CHECK: %[[FIRST:.*]] = stablehlo.dot_general
// CHECK: %[[OLD0:.*]] = stablehlo.slice %[[ACC]] [0:1, 0:8]
// CHECK: %[[SUM0:.*]] = stablehlo.add %[[OLD0]], %[[FIRST]] : tensor<1x8xf32>
// CHECK: plan.communicate all_reduce sum %[[SUM0]]
func.func @main(%acc: tensor<2x8xf32>, %x: tensor<1x4xf32>, %y: tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
  %z = stablehlo.tanh %y : tensor<4x8xf32>
  %0 = stablehlo.dot_general %x, %z, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
  %stack = stablehlo.concatenate %0, %1, dim = 0 {plan.stack} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %all = stablehlo.add %acc, %stack : tensor<2x8xf32>
  %b = stablehlo.slice %all [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %last = plan.communicate all_reduce sum %b groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %a = stablehlo.slice %all [0:1, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %first = plan.communicate all_reduce sum %a groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %first, %last : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// What something reads as a whole stays whole, and what follows from another
// collective, as an update, stays where it is.

// CHECK-LABEL: func.func @main
// CHECK: %[[ALL:.*]] = stablehlo.add %{{.*}} : tensor<2x8xf32>
// CHECK: %[[OWN:.*]] = stablehlo.slice %[[ALL]] [1:2, 0:8]
// CHECK: %[[SUM:.*]] = plan.communicate all_reduce sum %[[OWN]]
// CHECK: %[[OTHER:.*]] = stablehlo.tanh %[[ALL]]
// CHECK: %[[NEXT:.*]] = stablehlo.negate %[[SUM]]
// CHECK: plan.communicate all_gather none %[[NEXT]]
func.func @main(%acc: tensor<2x8xf32>, %p: tensor<1x8xf32>, %q: tensor<1x8xf32>) -> (tensor<2x1x8xf32>, tensor<2x8xf32>) {
  %0 = stablehlo.tanh %p : tensor<1x8xf32>
  %stack = stablehlo.concatenate %0, %q, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %all = stablehlo.add %acc, %stack : tensor<2x8xf32>
  %b = stablehlo.slice %all [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %sum = plan.communicate all_reduce sum %b groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %other = stablehlo.tanh %all : tensor<2x8xf32>
  %next = stablehlo.negate %sum : tensor<1x8xf32>
  %whole = plan.communicate all_gather none %next groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<2x1x8xf32>
  return %whole, %other : tensor<2x1x8xf32>, tensor<2x8xf32>
}

// -----

// The largest value of the stack is that of the largest of its slices, so that
// the reduction does not keep whole what is sent by slices. A sum of floats
// would have other bits.

// CHECK-LABEL: func.func @main
// CHECK: %[[LAST:.*]] = stablehlo.dot_general
// CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}}, %[[LAST]] : tensor<1x8xf32>
// CHECK: plan.communicate all_reduce sum %[[SUM]]
// CHECK: %[[MAX1:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<1x8xf32>
// CHECK: %[[FIRST:.*]] = stablehlo.dot_general
// CHECK: %[[SUM0:.*]] = stablehlo.add %{{.*}}, %[[FIRST]] : tensor<1x8xf32>
// CHECK: %[[MAX0:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<1x8xf32>
// CHECK: stablehlo.maximum %[[MAX0]], %[[MAX1]] : tensor<f32>
func.func @main(%acc: tensor<2x8xf32>, %x: tensor<1x4xf32>, %y: tensor<4x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
  %z = stablehlo.tanh %y : tensor<4x8xf32>
  %0 = stablehlo.dot_general %x, %z, contracting_dims = [1] x [0] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
  %stack = stablehlo.concatenate %0, %1, dim = 0 {plan.stack} : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
  %all = stablehlo.add %acc, %stack : tensor<2x8xf32>
  %magnitude = stablehlo.abs %all : tensor<2x8xf32>
  %amax = stablehlo.reduce(%magnitude init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
  %b = stablehlo.slice %all [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %last = plan.communicate all_reduce sum %b groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %a = stablehlo.slice %all [0:1, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
  %first = plan.communicate all_reduce sum %a groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %first, %last, %amax : tensor<1x8xf32>, tensor<1x8xf32>, tensor<f32>
}
