// RUN: scalify-opt %s --split-input-file --scalify-bind-loop-slices | FileCheck %s

// A scan: the body takes slices of 64 bytes, backwards for %y, and the counter is gone. The
// iterations write all of the stack, so it begins with any elements.
// CHECK-LABEL: func.func @scan
func.func @scan(%s: tensor<64x16xf32>, %x: tensor<64x16xf32>, %y: tensor<64x16xf32>) -> tensor<64x16xf32> {
  // CHECK: %[[ANY:.*]] = plan.undefined : tensor<64x16xf32>
  // CHECK: plan.iterate @body carries(%[[ANY]]) reads(%arg1, %arg2) trips 64 slices [0, 0, 64, 4032, 1, 0, 64, 4032, 2, 4032, -64, 4032]
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = plan.iterate @body carries(%i, %s) reads(%x, %y) trips 64
      : (tensor<i32>, tensor<64x16xf32>, tensor<64x16xf32>, tensor<64x16xf32>) -> (tensor<i32>, tensor<64x16xf32>)
  return %r#1 : tensor<64x16xf32>
}
// CHECK: func.func private @body(%[[S:.*]]: tensor<1x16xf32> {tf.aliasing_output = 0 : i32}, %[[X:.*]]: tensor<1x16xf32>, %[[Y:.*]]: tensor<1x16xf32>) -> tensor<1x16xf32>
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT: return %[[SUM]]
func.func private @body(%i: tensor<i32> {tf.aliasing_output = 0 : i32}, %s: tensor<64x16xf32> {tf.aliasing_output = 1 : i32}, %x: tensor<64x16xf32>, %y: tensor<64x16xf32>) -> (tensor<i32>, tensor<64x16xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c64 = stablehlo.constant dense<64> : tensor<i32>
  %c63 = stablehlo.constant dense<63> : tensor<i32>
  // An index that could be negative is counted from the end, as jax.numpy does.
  %back = stablehlo.subtract %c63, %i : tensor<i32>
  %below = stablehlo.compare LT, %back, %c0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %end = stablehlo.add %back, %c64 : tensor<i32>
  %at = stablehlo.select %below, %end, %back : tensor<i1>, tensor<i32>
  %xi = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
  %yi = stablehlo.dynamic_slice %y, %at, %c0, sizes = [1, 16] : (tensor<64x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
  %z = stablehlo.add %xi, %yi : tensor<1x16xf32>
  %t = stablehlo.dynamic_update_slice %s, %z, %i, %c0 : (tensor<64x16xf32>, tensor<1x16xf32>, tensor<i32>, tensor<i32>) -> tensor<64x16xf32>
  %j = stablehlo.add %i, %c1 : tensor<i32>
  return %j, %t : tensor<i32>, tensor<64x16xf32>
}

// -----

// Not bound: rows of 40 bytes, and a stack that the body reads and writes.
// CHECK-LABEL: func.func @kept
func.func @kept(%s: tensor<300x16xf32>, %x: tensor<300x10xf32>, %k: tensor<i8>) -> (tensor<300x16xf32>, tensor<f32>, tensor<i8>) {
  // CHECK: plan.iterate @body carries(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) reads(%arg1) trips 300 :
  %i = stablehlo.constant dense<0> : tensor<i32>
  %m = stablehlo.constant dense<0> : tensor<i8>
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %r:4 = plan.iterate @body carries(%i, %s, %a, %m) reads(%x) trips 300
      : (tensor<i32>, tensor<300x16xf32>, tensor<f32>, tensor<i8>, tensor<300x10xf32>) -> (tensor<i32>, tensor<300x16xf32>, tensor<f32>, tensor<i8>)
  return %r#1, %r#2, %r#3 : tensor<300x16xf32>, tensor<f32>, tensor<i8>
}
func.func private @body(%i: tensor<i32> {tf.aliasing_output = 0 : i32}, %s: tensor<300x16xf32> {tf.aliasing_output = 1 : i32}, %a: tensor<f32> {tf.aliasing_output = 2 : i32}, %m: tensor<i8> {tf.aliasing_output = 3 : i32}, %x: tensor<300x10xf32>) -> (tensor<i32>, tensor<300x16xf32>, tensor<f32>, tensor<i8>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %z0 = stablehlo.constant dense<0> : tensor<i8>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %m1 = stablehlo.constant dense<1> : tensor<i8>
  // CHECK: stablehlo.dynamic_slice %{{.*}} sizes = [1, 10]
  %xi = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 10] : (tensor<300x10xf32>, tensor<i32>, tensor<i32>) -> tensor<1x10xf32>
  // CHECK: stablehlo.dynamic_slice %{{.*}} sizes = [1, 16]
  %si = stablehlo.dynamic_slice %s, %i, %c0, sizes = [1, 16] : (tensor<300x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
  %one = stablehlo.slice %xi [0:1, 0:1] : (tensor<1x10xf32>) -> tensor<1x1xf32>
  %scalar = stablehlo.reshape %one : (tensor<1x1xf32>) -> tensor<f32>
  %b = stablehlo.add %a, %scalar : tensor<f32>
  // CHECK: stablehlo.dynamic_update_slice
  %t = stablehlo.dynamic_update_slice %s, %si, %m, %z0 : (tensor<300x16xf32>, tensor<1x16xf32>, tensor<i8>, tensor<i8>) -> tensor<300x16xf32>
  %j = stablehlo.add %i, %c1 : tensor<i32>
  %n = stablehlo.add %m, %m1 : tensor<i8>
  return %j, %t, %b, %n : tensor<i32>, tensor<300x16xf32>, tensor<f32>, tensor<i8>
}

// -----

// Not bound: counters whose types do not hold all of their numbers, and wrap around.
// CHECK-LABEL: func.func @wraps
func.func @wraps(%x: tensor<100x16xf32>, %s: tensor<100x16xf32>) -> tensor<100x16xf32> {
  // CHECK: plan.iterate @body carries(%{{.*}}, %{{.*}}, %arg1) reads(%arg0) trips 300 :
  %m = stablehlo.constant dense<0> : tensor<i8>
  %u = stablehlo.constant dense<0> : tensor<ui8>
  %r:3 = plan.iterate @body carries(%m, %u, %s) reads(%x) trips 300
      : (tensor<i8>, tensor<ui8>, tensor<100x16xf32>, tensor<100x16xf32>) -> (tensor<i8>, tensor<ui8>, tensor<100x16xf32>)
  return %r#2 : tensor<100x16xf32>
}
func.func private @body(%m: tensor<i8> {tf.aliasing_output = 0 : i32}, %u: tensor<ui8> {tf.aliasing_output = 1 : i32}, %s: tensor<100x16xf32> {tf.aliasing_output = 2 : i32}, %x: tensor<100x16xf32>) -> (tensor<i8>, tensor<ui8>, tensor<100x16xf32>) {
  %m0 = stablehlo.constant dense<0> : tensor<i8>
  %m1 = stablehlo.constant dense<1> : tensor<i8>
  %u0 = stablehlo.constant dense<0> : tensor<ui8>
  %u1 = stablehlo.constant dense<1> : tensor<ui8>
  // CHECK: stablehlo.dynamic_slice
  %xi = stablehlo.dynamic_slice %x, %m, %m0, sizes = [1, 16] : (tensor<100x16xf32>, tensor<i8>, tensor<i8>) -> tensor<1x16xf32>
  // CHECK: stablehlo.dynamic_update_slice
  %t = stablehlo.dynamic_update_slice %s, %xi, %u, %u0 : (tensor<100x16xf32>, tensor<1x16xf32>, tensor<ui8>, tensor<ui8>) -> tensor<100x16xf32>
  %n = stablehlo.add %m, %m1 : tensor<i8>
  %v = stablehlo.add %u, %u1 : tensor<ui8>
  return %n, %v, %t : tensor<i8>, tensor<ui8>, tensor<100x16xf32>
}
