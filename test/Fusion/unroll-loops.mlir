// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-unroll-loops))' -split-input-file | FileCheck %s

// A scan: each iteration reads its weight where it lies, and what the
// iterations stack is one concatenation whose pieces are computed in place.
// CHECK-LABEL: func.func @scan
// CHECK-SAME: %[[X:.*]]: tensor<16xf32>, %[[W:.*]]: tensor<2x16xf32>
func.func @scan(%x: tensor<16xf32>, %w: tensor<2x16xf32>) -> (tensor<16xf32>, tensor<2x16xf32>) {
  // CHECK-NOT: while
  // CHECK-NOT: dynamic
  // CHECK: %[[S0:.*]] = stablehlo.slice %[[W]] [0:1, 0:16]
  // CHECK: %[[W0:.*]] = stablehlo.reshape %[[S0]]
  // CHECK: %[[Y0:.*]] = stablehlo.multiply %[[X]], %[[W0]] {scalify.phase = #scalify.phase<forward>}
  // CHECK: %[[P0:.*]] = stablehlo.reshape %[[Y0]] : (tensor<16xf32>) -> tensor<1x16xf32>
  // CHECK: %[[S1:.*]] = stablehlo.slice %[[W]] [1:2, 0:16]
  // CHECK: %[[W1:.*]] = stablehlo.reshape %[[S1]]
  // CHECK: %[[Y1:.*]] = stablehlo.multiply %[[Y0]], %[[W1]] {scalify.phase = #scalify.phase<forward>}
  // CHECK: %[[P1:.*]] = stablehlo.reshape %[[Y1]]
  // CHECK: %[[S:.*]] = stablehlo.concatenate %[[P0]], %[[P1]], dim = 0 {plan.stack}
  // CHECK: return %[[Y1]], %[[S]]
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<2x16xf32>
  %r:4 = stablehlo.while(%i = %c0, %v = %x, %s = %z, %ws = %w) : tensor<i32>, tensor<16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %a = stablehlo.dynamic_slice %ws, %i, %c0, sizes = [1, 16] : (tensor<2x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %b = stablehlo.reshape %a : (tensor<1x16xf32>) -> tensor<16xf32>
      %y = stablehlo.multiply %v, %b {scalify.phase = #scalify.phase<forward>} : tensor<16xf32>
      %u = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
      %t = stablehlo.dynamic_update_slice %s, %u, %i, %c0 : (tensor<2x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y, %t, %ws : tensor<i32>, tensor<16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
    }
  return %r#1, %r#2 : tensor<16xf32>, tensor<2x16xf32>
}

// -----

// A loop that runs the other way reads what the first one stacked: no stack is
// left of what only it read.
// CHECK-LABEL: func.func @forward_and_backward
// CHECK-SAME: %[[X:.*]]: tensor<16xf32>)
func.func @forward_and_backward(%x: tensor<16xf32>) -> tensor<16xf32> {
  // CHECK: %[[A:.*]] = stablehlo.sine %[[X]]
  // CHECK: %[[B:.*]] = stablehlo.sine %[[A]]
  // CHECK: %[[G:.*]] = stablehlo.multiply %[[B]], %[[A]]
  // CHECK: %[[H:.*]] = stablehlo.multiply %[[G]], %[[X]]
  // CHECK: return %[[H]]
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<2x16xf32>
  %r:3 = stablehlo.while(%i = %c0, %v = %x, %s = %z) : tensor<i32>, tensor<16xf32>, tensor<2x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %u = stablehlo.reshape %v : (tensor<16xf32>) -> tensor<1x16xf32>
      %t = stablehlo.dynamic_update_slice %s, %u, %i, %c0 : (tensor<2x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16xf32>
      %y = stablehlo.sine %v : tensor<16xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y, %t : tensor<i32>, tensor<16xf32>, tensor<2x16xf32>
    }
  %q:2 = stablehlo.while(%i = %c0, %g = %r#1) : tensor<i32>, tensor<16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %k = stablehlo.subtract %c2, %i : tensor<i32>
      %l = stablehlo.subtract %k, %c1 : tensor<i32>
      // As JAX writes an index that may count from the end.
      %n = stablehlo.compare LT, %l, %c0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %m = stablehlo.add %l, %c2 : tensor<i32>
      %o = stablehlo.select %n, %m, %l : tensor<i1>, tensor<i32>
      %a = stablehlo.dynamic_slice %r#2, %o, %c0, sizes = [1, 16] : (tensor<2x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %b = stablehlo.reshape %a : (tensor<1x16xf32>) -> tensor<16xf32>
      %y = stablehlo.multiply %g, %b : tensor<16xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<16xf32>
    }
  return %q#1 : tensor<16xf32>
}

// -----

// The inner loop runs as often as the outer counter says: 0 + 1 + 2 times. A
// constant of the body is one for all.
// CHECK-LABEL: func.func @nested
// CHECK-COUNT-1: stablehlo.constant
// CHECK-COUNT-3: stablehlo.add
// CHECK-NOT: stablehlo
// CHECK: return
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q:3 = stablehlo.while(%k = %c0, %n = %i, %w = %v) : tensor<i32>, tensor<i32>, tensor<4xf32>
        cond {
          %p = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %h = stablehlo.constant dense<0.5> : tensor<4xf32>
          %y = stablehlo.add %w, %h : tensor<4xf32>
          %l = stablehlo.add %k, %c1 : tensor<i32>
          stablehlo.return %l, %n, %y : tensor<i32>, tensor<i32>, tensor<4xf32>
        }
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %q#2 : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}

// -----

// A branch that the counter chooses, by an element of a range of integers.
// CHECK-LABEL: func.func @branch
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[A:.*]] = stablehlo.sine %[[X]]
// CHECK-NEXT: %[[B:.*]] = stablehlo.cosine %[[A]]
// CHECK-NEXT: %[[C:.*]] = stablehlo.sine %[[B]]
// CHECK-NEXT: return %[[C]]
func.func @branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.constant dense<3> : tensor<i32>
  %iota = stablehlo.iota dim = 0 : tensor<3xi32>
  %two = stablehlo.constant dense<2> : tensor<3xi32>
  %odd = stablehlo.remainder %iota, %two : tensor<3xi32>
  %r:2 = stablehlo.while(%i = %c0, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %a = stablehlo.dynamic_slice %odd, %i, sizes = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<1xi32>
      %b = stablehlo.reshape %a : (tensor<1xi32>) -> tensor<i32>
      %c = stablehlo.clamp %c0, %b, %c1 : tensor<i32>
      %y = "stablehlo.case"(%c) ({
        %s = stablehlo.sine %v : tensor<4xf32>
        stablehlo.return %s : tensor<4xf32>
      }, {
        %s = stablehlo.cosine %v : tensor<4xf32>
        stablehlo.return %s : tensor<4xf32>
      }) : (tensor<i32>) -> tensor<4xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}

// -----

// Every iteration's cast keeps its name: they add to one counter.
// CHECK-LABEL: func.func @cast
// CHECK-COUNT-2: scalify.quantize {{.*}}cast = "c1"
// CHECK-NOT: scalify.quantize
func.func @cast(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %c0, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q = scalify.quantize %v, %one {cast = "c1"} : tensor<4xf32> -> tensor<4xf8E4M3FN>
      %y = scalify.dequantize %q, %one : tensor<4xf8E4M3FN> -> tensor<4xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}

// -----

// No iteration: the result is what went in.
// CHECK-LABEL: func.func @never
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @never(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c1, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.sine %v : tensor<4xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}

// -----

// A function without loops stays as it is.
// CHECK-LABEL: func.func @no_loop
// CHECK: stablehlo.dynamic_update_slice
// CHECK: stablehlo.dynamic_update_slice
func.func @no_loop(%x: tensor<2x16xf32>, %u: tensor<1x16xf32>) -> tensor<2x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %a = stablehlo.dynamic_update_slice %x, %u, %c0, %c0 : (tensor<2x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16xf32>
  %b = stablehlo.dynamic_update_slice %a, %u, %c1, %c0 : (tensor<2x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16xf32>
  return %b : tensor<2x16xf32>
}

// -----

// Data choose: all branches are computed; indices without one take the last.
// CHECK-LABEL: func.func @chosen_by_data
// CHECK-SAME: %[[I:.*]]: tensor<i32>, %[[X:.*]]: tensor<4xf32>)
// CHECK: %[[LAST:.*]] = stablehlo.negate %[[X]]
// CHECK: %[[ONE:.*]] = stablehlo.cosine %[[X]]
// CHECK: %[[C1:.*]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK: %[[IS1:.*]] = stablehlo.compare EQ, %[[I]], %[[C1]]
// CHECK: %[[S1:.*]] = stablehlo.select %[[IS1]], %[[ONE]], %[[LAST]]
// CHECK: %[[ZERO:.*]] = stablehlo.sine %[[X]]
// CHECK: %[[C0:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK: %[[IS0:.*]] = stablehlo.compare EQ, %[[I]], %[[C0]]
// CHECK: %[[S0:.*]] = stablehlo.select %[[IS0]], %[[ZERO]], %[[S1]]
// CHECK: return %[[S0]]
func.func @chosen_by_data(%i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%i) ({
    %a = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    %a = stablehlo.cosine %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    %a = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @chosen_by_a_predicate
// CHECK-SAME: %[[P:.*]]: tensor<i1>, %[[X:.*]]: tensor<4xf32>)
// CHECK: %[[NO:.*]] = stablehlo.negate %[[X]]
// CHECK: stablehlo.select %[[P]], %[[X]], %[[NO]]
func.func @chosen_by_a_predicate(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %a = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
