// What is left in a body is one hint per operand of a dot: values cross its
// borders true.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" --scalify-fold --scalify-validate-scales | FileCheck %s

// CHECK-LABEL: func.func @nested
// CHECK-NOT:     scalify.rescale
// CHECK:         stablehlo.while
// CHECK:           stablehlo.while
// CHECK:             %[[A:.*]] = scalify.set_scale %[[C:.*]], %{{.*}} : tensor<8x8xf32>
// CHECK:             %[[B:.*]] = scalify.set_scale %arg1, %{{.*}} : tensor<8x8xf32>
// CHECK:             stablehlo.dot_general %[[A]], %[[B]]
// CHECK-NOT:     scalify.rescale
// CHECK:         return
func.func @nested(%x: tensor<8x8xf32> {scalify.scale = -7 : i32},
                  %w: tensor<8x8xf32> {scalify.scale = -2 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %q:2 = stablehlo.while(%k = %zero, %e = %c) : tensor<i32>, tensor<8x8xf32>
     cond {
      %0 = stablehlo.compare GT, %n, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %d = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %d, %e : tensor<8x8xf32>
      %t = stablehlo.multiply %s, %x : tensor<8x8xf32>
      %h = stablehlo.tanh %t : tensor<8x8xf32>
      %m = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %m, %h : tensor<i32>, tensor<8x8xf32>
    }
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %q#1 : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// A zero that the outer loop carries as it is, as the first state of a
// recurrence in each layer, is data of any scale where the inner one starts.
// CHECK-LABEL: func.func @zero_carried
// CHECK-NOT:     scalify.rescale
// CHECK:         return
func.func @zero_carried(%x: tensor<8x8xf32> {scalify.scale = 5 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:4 = stablehlo.while(%i = %zero, %h0 = %z, %c = %x, %s = %z) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %b:2 = stablehlo.optimization_barrier %h0, %c : tensor<8x8xf32>, tensor<8x8xf32>
    %q:2 = stablehlo.while(%k = %zero, %h = %b#0) : tensor<i32>, tensor<8x8xf32>
     cond {
      %0 = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %k1 = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %k1, %b#1 : tensor<i32>, tensor<8x8xf32>
    }
    %i1 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i1, %h0, %c, %q#1 : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#3 : tensor<8x8xf32>
}
