// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-unroll-loops))' -split-input-file | FileCheck %s

// Chains of updates. Each function has a loop of one iteration, since without
// loops the pass leaves everything as it is.

// What no update covers is a slice of what was there before.
// CHECK-LABEL: func.func @gap
// CHECK-SAME: %[[S:.*]]: tensor<4x16xf32>, %[[U:.*]]: tensor<1x16xf32>)
// CHECK: %[[A:.*]] = stablehlo.slice %[[S]] [0:1, 0:16]
// CHECK: %[[B:.*]] = stablehlo.slice %[[S]] [2:3, 0:16]
// CHECK: stablehlo.concatenate %[[A]], %[[U]], %[[B]], %[[U]], dim = 0 {plan.stack}
func.func @gap(%s: tensor<4x16xf32>, %u: tensor<1x16xf32>) -> tensor<4x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %v = %s) : tensor<i32>, tensor<4x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %a = stablehlo.dynamic_update_slice %v, %u, %c1, %c0 : (tensor<4x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<4x16xf32>
      // Beyond the end: the last place.
      %b = stablehlo.dynamic_update_slice %a, %u, %c3, %c0 : (tensor<4x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<4x16xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %b : tensor<i32>, tensor<4x16xf32>
    }
  return %r#1 : tensor<4x16xf32>
}

// -----

// A later update hides an earlier one, in whole or in part.
// CHECK-LABEL: func.func @overlap
// CHECK-SAME: %[[S:.*]]: tensor<3x16xf32>, %[[U:.*]]: tensor<1x16xf32>, %[[V:.*]]: tensor<2x16xf32>)
// CHECK-NOT: dynamic_update_slice
// CHECK: %[[B:.*]] = stablehlo.slice %[[V]] [1:2, 0:16]
// CHECK: stablehlo.concatenate %[[U]], %[[B]], %[[U]], dim = 0 {plan.stack}
func.func @overlap(%s: tensor<3x16xf32>, %u: tensor<1x16xf32>, %v: tensor<2x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<9> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %w = %s) : tensor<i32>, tensor<3x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %a = stablehlo.dynamic_update_slice %w, %v, %c0, %c0 : (tensor<3x16xf32>, tensor<2x16xf32>, tensor<i32>, tensor<i32>) -> tensor<3x16xf32>
      %b = stablehlo.dynamic_update_slice %a, %u, %c2, %c0 : (tensor<3x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<3x16xf32>
      %c = stablehlo.dynamic_update_slice %b, %u, %c2, %c0 : (tensor<3x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<3x16xf32>
      %d = stablehlo.dynamic_update_slice %c, %u, %c0, %c0 : (tensor<3x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<3x16xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %d : tensor<i32>, tensor<3x16xf32>
    }
  return %r#1 : tensor<3x16xf32>
}

// -----

// A piece of 4 bytes is no buffer: few are joined at a time, since a kernel
// reads all that it joins for every element.
// CHECK-LABEL: func.func @scalars
// CHECK-COUNT-2: stablehlo.concatenate {{.*}} dim = 0 {plan.materialise} : {{.*}} -> tensor<8xf32>
// CHECK: stablehlo.concatenate {{.*}} dim = 0 {plan.materialise} : {{.*}} -> tensor<4xf32>
// CHECK: stablehlo.concatenate {{.*}}, dim = 0 : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<20xf32>
func.func @scalars(%x: tensor<1xf32>) -> tensor<20xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c20 = stablehlo.constant dense<20> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<20xf32>
  %r:3 = stablehlo.while(%i = %c0, %v = %x, %s = %z) : tensor<i32>, tensor<1xf32>, tensor<20xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c20, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.sine %v : tensor<1xf32>
      %t = stablehlo.dynamic_update_slice %s, %y, %i : (tensor<20xf32>, tensor<1xf32>, tensor<i32>) -> tensor<20xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y, %t : tensor<i32>, tensor<1xf32>, tensor<20xf32>
    }
  return %r#2 : tensor<20xf32>
}

// -----

// Rows that an iteration stacks in twos, as a scan that JAX unrolls in part,
// are found behind the reshape that puts the twos in one row; a slice that
// takes the end of one two and the start of the next is no row of the stack.
// CHECK-LABEL: func.func @in_twos
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK: %[[S:.*]] = stablehlo.sine %[[X]]
// CHECK: %[[C:.*]] = stablehlo.cosine %[[S]]
// CHECK: %[[S2:.*]] = stablehlo.sine %[[C]]
// CHECK: plan.stack
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[S2]] : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK: %[[OVER:.*]] = stablehlo.slice %{{.*}} [1:3, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>
// CHECK: return %[[ROW]], %[[OVER]]
func.func @in_twos(%x: tensor<8xf32>) -> (tensor<1x8xf32>, tensor<2x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<2> : tensor<i32>
  %empty = stablehlo.constant dense<0.0> : tensor<2x2x8xf32>
  %r:3 = stablehlo.while(%i = %zero, %v = %x, %stack = %empty) : tensor<i32>, tensor<8xf32>, tensor<2x2x8xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.sine %v : tensor<8xf32>
    %c = stablehlo.cosine %s : tensor<8xf32>
    %s1 = stablehlo.reshape %s : (tensor<8xf32>) -> tensor<1x8xf32>
    %c1 = stablehlo.reshape %c : (tensor<8xf32>) -> tensor<1x8xf32>
    %two = stablehlo.concatenate %s1, %c1, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %piece = stablehlo.reshape %two : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %t = stablehlo.dynamic_update_slice %stack, %piece, %i, %zero, %zero : (tensor<2x2x8xf32>, tensor<1x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %c, %t : tensor<i32>, tensor<8xf32>, tensor<2x2x8xf32>
  }
  %rows = stablehlo.reshape %r#2 : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
  %row = stablehlo.slice %rows [2:3, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %over = stablehlo.slice %rows [1:3, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return %row, %over : tensor<1x8xf32>, tensor<2x8xf32>
}
