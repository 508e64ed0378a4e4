// RUN: scalify-opt %s --scalify-propagate=strict=1 -split-input-file -verify-diagnostics
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" -split-input-file | FileCheck %s

// A carry that doubles as often as the data says has no constant scale: one
// more carry holds it, which the body doubles. Nothing is read to know it.
// CHECK-LABEL: func.func @doubles
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x8xf32>
// CHECK-DAG:     %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK-DAG:     %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<f32>
// CHECK:         stablehlo.while(%[[C:.*]] = %[[X]], %{{.*}} = %{{.*}}, %[[S:.*]] = %[[ONE]])
// CHECK:         do
// CHECK-NOT:       reduce
// CHECK:           %[[R:.*]] = scalify.round_scale
// CHECK:           scalify.scale_hint %[[C]], %[[R]] {rule = "carry of a loop, dynamic: grows by 2^1.00 a trip"
// CHECK:           %[[N:.*]] = stablehlo.multiply %[[S]], %[[TWO]] : tensor<f32>
// CHECK:           stablehlo.return %{{.*}}, %{{.*}}, %[[N]]
func.func @doubles(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -4 : i32}, %limit: tensor<f32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %start = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  // expected-remark @below {{carry 0 of 'stablehlo.while' ('tensor<8x8xf32>') has a run-time scale: grows by 2^1.00 a trip}}
  %r:2 = stablehlo.while(%c = %x, %o = %start) : tensor<8x8xf32>, tensor<8x8xf32>
   cond {
    %m = stablehlo.reduce(%c init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    %0 = stablehlo.compare LT, %m, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %y = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>
    %d = stablehlo.multiply %c, %two : tensor<8x8xf32>
    stablehlo.return %d, %t : tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// -----

// The same matrix in each iteration turns the carry: its growth is measured,
// from the scale before.
// CHECK-LABEL: func.func @power
// CHECK:         do
// CHECK:           %[[M:.*]] = scalify.measured_scale {{ *}}l2 %[[C:.*]], %{{.*}} : tensor<8x8xf32>
// CHECK:           scalify.scale_hint %[[C]]
// CHECK:           stablehlo.return %{{.*}}, %[[M]]
func.func @power(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = 1 : i32}, %limit: tensor<f32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-remark @below {{carry 0 of 'stablehlo.while' ('tensor<8x8xf32>') has a run-time scale: measured, moves through}}
  %r = stablehlo.while(%c = %x) : tensor<8x8xf32>
   cond {
    %m = stablehlo.reduce(%c init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    %0 = stablehlo.compare LT, %m, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %y = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    stablehlo.return %y : tensor<8x8xf32>
  }
  return %r : tensor<8x8xf32>
}

// -----

// In a known number of iterations too, where it moves far. Without a dot that
// reads the scale, none is built.
// CHECK-LABEL: func.func @counted
// CHECK:         stablehlo.while
// CHECK-SAME:    : tensor<i32>, tensor<8x8xf32>
// CHECK-SAME:    scalify.carry_scales = array<i64: 0, 12>
// CHECK-NOT:     growing
func.func @counted(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<24> : tensor<i32>
  // expected-remark @below {{carry 1 of 'stablehlo.while' ('tensor<8x8xf32>') has a run-time scale: grows by 2^1.00 a trip}}
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>
    %d = stablehlo.multiply %c, %two : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// -----

// What a loop stacks has a scale per slice: a vector beside the stack, which
// the reversed loop reads at the place of the slice.
// CHECK-LABEL: func.func @stacked
// CHECK-DAG:     %[[ONES:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<24xf32>
// CHECK:         %[[F:.*]]:5 = stablehlo.while({{.*}}, %[[V:.*]] = %[[ONES]])
// CHECK:         do
// CHECK:           %[[E:.*]] = stablehlo.reshape %{{.*}} : (tensor<f32>) -> tensor<1xf32>
// CHECK:           stablehlo.dynamic_update_slice %[[V]], %[[E]], %{{.*}} : (tensor<24xf32>, tensor<1xf32>, tensor<i32>)
// CHECK:         stablehlo.while
// CHECK:         do
// CHECK:           stablehlo.dynamic_slice %[[F]]#2, %[[K:[^,]*]], {{.*}}sizes = [1, 8, 8]
// CHECK:           stablehlo.dynamic_slice %[[F]]#4, %[[K]], sizes = [1] : (tensor<24xf32>, tensor<i32>)
// CHECK:           scalify.scale_hint {{.*}} {rule = "{{.*}} (predicted), times the growth of a loop's carry"
func.func @stacked(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -4 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<24> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<24x8x8xf32>
  // expected-remark @below {{carry 1 of 'stablehlo.while'}}
  %r:3 = stablehlo.while(%i = %zero, %c = %x, %s = %zeros) : tensor<i32>, tensor<8x8xf32>, tensor<24x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2.0> : tensor<8x8xf32>
    %d = stablehlo.multiply %c, %two : tensor<8x8xf32>
    %u = stablehlo.reshape %c : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %t = stablehlo.dynamic_update_slice %s, %u, %i, %zero, %zero : (tensor<24x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<24x8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d, %t : tensor<i32>, tensor<8x8xf32>, tensor<24x8x8xf32>
  }
  %start = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %q:2 = stablehlo.while(%i = %zero, %g = %start) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %last = stablehlo.constant dense<23> : tensor<i32>
    %k = stablehlo.subtract %last, %i : tensor<i32>
    %u = stablehlo.dynamic_slice %r#2, %k, %zero, %zero, sizes = [1, 8, 8] : (tensor<24x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %v = stablehlo.reshape %u : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t : tensor<i32>, tensor<8x8xf32>
  }
  return %q#1 : tensor<8x8xf32>
}
