// RUN: scalify-opt %s --scalify-form-plan --scalify-bind-slices --scalify-assign-buffers -split-input-file | FileCheck %s

// Equal layers of a stack read parts of it: their bodies have no place in them.
// A part of an argument has its offset, a temporary's is in the arena.
// CHECK-LABEL: plan.program @step
// CHECK: %[[B:.*]] = plan.argument 0 {plan.offset = 256 : i64} : memref<1x64xf32>
// CHECK: %[[A:.*]] = plan.argument 0 {plan.offset = 0 : i64} : memref<1x64xf32>
// CHECK: plan.kernel "slice_add_reverse" reads(%{{.*}}, %[[A]] : memref<64xf32>, memref<1x64xf32>)
// CHECK-NOT: stablehlo.slice
// CHECK: plan.kernel "slice_add_reverse" reads(%{{.*}}, %[[B]] : memref<64xf32>, memref<1x64xf32>)
// CHECK-NOT: stablehlo.slice
func.func @main(%x: tensor<3x64xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %0 = stablehlo.slice %x [0:1, 0:64] : (tensor<3x64xf32>) -> tensor<1x64xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x64xf32>) -> tensor<64xf32>
  %2 = stablehlo.add %1, %y : tensor<64xf32>
  %3 = stablehlo.reverse %2, dims = [0] {plan.materialise} : tensor<64xf32>
  %4 = stablehlo.slice %x [1:2, 0:64] : (tensor<3x64xf32>) -> tensor<1x64xf32>
  %5 = stablehlo.reshape %4 : (tensor<1x64xf32>) -> tensor<64xf32>
  %6 = stablehlo.add %5, %3 : tensor<64xf32>
  %7 = stablehlo.reverse %6, dims = [0] : tensor<64xf32>
  return %3, %7 : tensor<64xf32>, tensor<64xf32>
}

// -----

// The whole lives until its last part is read: the sum of what is made of the
// first part takes no memory of it.
// CHECK-LABEL: plan.program @step
// CHECK: %[[W:.*]] = plan.temp at 0 : memref<2x64xf32>
// CHECK: plan.temp at 256 part of %[[W]] : memref<2x64xf32> from 256 : memref<1x64xf32>
// CHECK: plan.temp at 0 part of %[[W]] : memref<2x64xf32> from 0 : memref<1x64xf32>
// CHECK: plan.temp at 512 : memref<1x64xf32>
func.func @main(%x: tensor<2x64xf32>) -> (tensor<1x64xf32>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.tanh %x {plan.materialise} : tensor<2x64xf32>
  %a = stablehlo.slice %w [0:1, 0:64] : (tensor<2x64xf32>) -> tensor<1x64xf32>
  %t = stablehlo.tanh %a {plan.materialise} : tensor<1x64xf32>
  %r = stablehlo.reverse %t, dims = [1] {plan.materialise} : tensor<1x64xf32>
  %b = stablehlo.slice %w [1:2, 0:64] : (tensor<2x64xf32>) -> tensor<1x64xf32>
  %m = stablehlo.multiply %r, %b : tensor<1x64xf32>
  %s = stablehlo.reduce(%m init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<1x64xf32>, tensor<f32>) -> tensor<f32>
  return %r, %s : tensor<1x64xf32>, tensor<f32>
}

// -----

// Slices that no multiple of 64 bytes begins, or that are no run of memory,
// stay; and so does one beside a read of the whole.
// CHECK-LABEL: plan.program @step
// CHECK-NOT: plan.offset
// CHECK: stablehlo.slice %{{.*}} [1:2, 0:60]
// CHECK: stablehlo.slice %{{.*}} [0:3, 0:16]
// CHECK: stablehlo.slice %{{.*}} [1:2, 0:32]
func.func @main(%x: tensor<3x60xf32>, %y: tensor<3x64xf32>, %z: tensor<2x32xf32>) -> (tensor<1x60xf32>, tensor<3x16xf32>, tensor<2x32xf32>) {
  %0 = stablehlo.slice %x [1:2, 0:60] : (tensor<3x60xf32>) -> tensor<1x60xf32>
  %1 = stablehlo.tanh %0 : tensor<1x60xf32>
  %2 = stablehlo.slice %y [0:3, 0:16] : (tensor<3x64xf32>) -> tensor<3x16xf32>
  %3 = stablehlo.tanh %2 : tensor<3x16xf32>
  %4 = stablehlo.slice %z [1:2, 0:32] : (tensor<2x32xf32>) -> tensor<1x32xf32>
  %5 = stablehlo.reshape %4 : (tensor<1x32xf32>) -> tensor<32xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [1] : (tensor<32xf32>) -> tensor<2x32xf32>
  %7 = stablehlo.add %z, %6 : tensor<2x32xf32>
  return %1, %3, %7 : tensor<1x60xf32>, tensor<3x16xf32>, tensor<2x32xf32>
}

// -----

// A donated stack: read by a part before it is written in place.
// CHECK-LABEL: plan.program @step
// CHECK: %[[P:.*]] = plan.argument 0 {plan.offset = 256 : i64} : memref<1x64xf32>
// CHECK: plan.kernel "{{.*}}" reads(%[[P]] : memref<1x64xf32>)
// CHECK: plan.kernel "{{.*}}" reads(%{{.*}} : memref<3x64xf32>, memref<f32>) writes(%{{.*}} : memref<3x64xf32>) attributes {inplace = array<i64: 0, 0>
func.func @main(%x: tensor<3x64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<3x64xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %x [1:2, 0:64] : (tensor<3x64xf32>) -> tensor<1x64xf32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1] {plan.materialise} : (tensor<1x64xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3x64xf32>
  %3 = stablehlo.add %x, %2 : tensor<3x64xf32>
  return %3 : tensor<3x64xf32>
}

// -----

// Read by a part after its successor is made: that is copied at the end.
// CHECK-LABEL: plan.program @step
// CHECK: %[[X:.*]] = plan.argument 0 : memref<3x64xf32>
// CHECK: %[[P:.*]] = plan.argument 0 {plan.offset = 256 : i64} : memref<1x64xf32>
// CHECK: %[[R:.*]] = plan.result 0 aliases 0
// CHECK: plan.kernel "{{.*}}" reads(%[[X]] : memref<3x64xf32>) writes(%[[T:.*]], %{{.*}} : memref<3x64xf32>, memref<f32>)
// CHECK: plan.kernel "{{.*}}" reads(%{{.*}}%[[P]] :
// CHECK: plan.copy %[[T]] to %[[R]]
func.func @main(%x: tensor<3x64xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3x64xf32>, tensor<1x64xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x : tensor<3x64xf32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0, 1] {plan.materialise} : (tensor<3x64xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.slice %x [1:2, 0:64] : (tensor<3x64xf32>) -> tensor<1x64xf32>
  %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1x64xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<1x64xf32>
  return %0, %4 : tensor<3x64xf32>, tensor<1x64xf32>
}

// -----

// One element has no alignment but its own, and may be of a result that an
// earlier kernel has written: kernels for scales at other places are equal.
// CHECK-LABEL: plan.program @step
// CHECK-DAG: %[[R:.*]] = plan.result 0 aliases 0 : memref<5xf32>
// CHECK-DAG: %[[THIRD:.*]] = plan.result 0 aliases 0 {plan.offset = 12 : i64} : memref<1xf32>
// CHECK-DAG: %[[SECOND:.*]] = plan.argument 1 {plan.offset = 4 : i64} : memref<1xf32>
// CHECK: plan.kernel "tanh" {{.*}} writes(%[[R]] :
// CHECK: plan.kernel {{.*}} reads({{.*}}%[[THIRD]]
// CHECK-NOT: stablehlo.slice
func.func @main(%s: tensor<5xf32> {tf.aliasing_output = 0 : i32}, %t: tensor<5xf32>, %x: tensor<64xf32>) -> (tensor<5xf32>, tensor<64xf32>) {
  %r = stablehlo.tanh %s {plan.materialise} : tensor<5xf32>
  %a = stablehlo.slice %r [3:4] : (tensor<5xf32>) -> tensor<1xf32>
  %b = stablehlo.slice %t [1:2] : (tensor<5xf32>) -> tensor<1xf32>
  %c = stablehlo.multiply %a, %b : tensor<1xf32>
  %d = stablehlo.reshape %c : (tensor<1xf32>) -> tensor<f32>
  %e = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %f = stablehlo.multiply %x, %e : tensor<64xf32>
  return %r, %f : tensor<5xf32>, tensor<64xf32>
}
