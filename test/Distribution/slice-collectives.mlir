// RUN: scalify-opt %s --scalify-slice-collectives --split-input-file -verify-diagnostics | FileCheck %s
// RUN: scalify-opt %s --scalify-slice-collectives=gathers=true --split-input-file | FileCheck %s --check-prefix=GATHER

// A backward writes the last layer first, and it is summed first.

// CHECK-LABEL: func.func @main
// CHECK: %[[LOOP:.*]]:2 = stablehlo.while
// CHECK: %[[LAST:.*]] = stablehlo.slice %[[LOOP]]#1 [1:2, 0:8]
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[LAST]] : (tensor<1x8xf32>) -> tensor<8xf32>
// CHECK: %[[ONE:.*]] = "stablehlo.reduce_scatter"(%[[ROW]])
// CHECK-SAME: scatter_dimension = 0
// CHECK: (tensor<8xf32>) -> tensor<4xf32>
// CHECK: %[[PART1:.*]] = stablehlo.reshape %[[ONE]] : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK: %[[FIRST:.*]] = stablehlo.slice %[[LOOP]]#1 [0:1, 0:8]
// CHECK: "stablehlo.reduce_scatter"
// CHECK: %[[PART0:.*]] = stablehlo.reshape %{{.*}} : (tensor<4xf32>) -> tensor<1x4xf32>
// CHECK: %[[STACK:.*]] = stablehlo.dynamic_update_slice %{{.*}}, %[[PART0]]
// CHECK: %[[ALL:.*]] = stablehlo.dynamic_update_slice %[[STACK]], %[[PART1]]
// CHECK: return %[[ALL]]
func.func @main(%dy: tensor<1x8xf32>) -> tensor<2x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x8xf32>
  %0:2 = stablehlo.while(%i = %c0, %stack = %zeros) : tensor<i32>, tensor<2x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %at = stablehlo.subtract %c1, %i : tensor<i32>
    %g = stablehlo.tanh %dy : tensor<1x8xf32>
    %next = stablehlo.dynamic_update_slice %stack, %g, %at, %c0 : (tensor<2x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<2x8xf32>
  }
  %1 = "stablehlo.reduce_scatter"(%0#1) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x8xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// What no loop makes goes at once, in a row: a rank's parts of all slices one
// behind the other.

// CHECK-LABEL: func.func @main
// CHECK: %[[PARTS:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x8xf32>) -> tensor<2x2x4xf32>
// CHECK: %[[RANKS:.*]] = stablehlo.transpose %[[PARTS]], dims = [1, 0, 2]
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[RANKS]] : (tensor<2x2x4xf32>) -> tensor<16xf32>
// CHECK: %[[OWN:.*]] = "stablehlo.reduce_scatter"(%[[ROW]])
// CHECK: (tensor<16xf32>) -> tensor<8xf32>
// CHECK: stablehlo.reshape %[[OWN]] : (tensor<8xf32>) -> tensor<2x4xf32>

// GATHER: %[[SHARE:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x4xf32>) -> tensor<8xf32>
// GATHER: %[[ALL:.*]] = "stablehlo.all_gather"(%[[SHARE]]) <{all_gather_dim = 0
// GATHER: %[[RANKS:.*]] = stablehlo.reshape %[[ALL]] : (tensor<16xf32>) -> tensor<2x2x4xf32>
// GATHER: %[[SLICES:.*]] = stablehlo.transpose %[[RANKS]], dims = [1, 0, 2]
// GATHER: stablehlo.reshape %{{.*}} : (tensor<16xf32>) -> tensor<2x8xf32>
func.func @main(%g: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %1 = "stablehlo.reduce_scatter"(%g) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// -----

// A loop reads one layer after the other: each is gathered by itself, behind
// what makes them narrow. The largest magnitude of the gradients is that of all
// layers, so that these go behind the loop.

// GATHER-LABEL: func.func @main(%arg0: tensor<2x4xf16>
// GATHER: stablehlo.slice %arg0 [0:1, 0:4]
// GATHER: "stablehlo.all_gather"(%{{.*}}) {{.*}} : (tensor<4xf16>) -> tensor<8xf16>
// GATHER: stablehlo.slice %arg0 [1:2, 0:4]
// GATHER: "stablehlo.all_gather"(%{{.*}}) {{.*}} : (tensor<4xf16>) -> tensor<8xf16>
// GATHER: %[[STACK:.*]] = stablehlo.dynamic_update_slice %{{.*}} : (tensor<2x8xf16>, tensor<1x8xf16>, tensor<i32>, tensor<i32>) -> tensor<2x8xf16>
// GATHER: %[[WIDE:.*]] = stablehlo.convert
// GATHER: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %[[WIDE]])
func.func @main(%w: tensor<2x4xf16>) -> tensor<2x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x8xf32>
  %all = "stablehlo.all_gather"(%w) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x4xf16>) -> tensor<2x8xf16>
  %wide = stablehlo.convert %all : (tensor<2x8xf16>) -> tensor<2x8xf32>
  %0:3 = stablehlo.while(%i = %c0, %stack = %zeros, %weights = %wide) : tensor<i32>, tensor<2x8xf32>, tensor<2x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %own = stablehlo.dynamic_slice %weights, %i, %c0, sizes = [1, 8] : (tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %next = stablehlo.dynamic_update_slice %stack, %own, %i, %c0 : (tensor<2x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next, %weights : tensor<i32>, tensor<2x8xf32>, tensor<2x8xf32>
  }
  %size = stablehlo.abs %0#1 : tensor<2x8xf32>
  %amax = stablehlo.reduce(%size init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
  %q = scalify.quantize %0#1, %amax : tensor<2x8xf32> -> tensor<2x8xf8E5M2>
  %d = scalify.dequantize %q, %amax : tensor<2x8xf8E5M2> -> tensor<2x8xf32>
  // expected-remark@+1 {{covers all layers and runs after their loop: it needs a value computed there, such as a scale measured of all}}
  %1 = "stablehlo.all_reduce"(%d) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}
