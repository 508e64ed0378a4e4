// RUN: scalify-opt %s --scalify-lower-kernels | FileCheck %s

// Rows of vectors; equal bodies share one function.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "twice" {{.*}} attributes {function = @k0, grain = {{.*}}, rows = 4 : i64}
// CHECK: plan.kernel "again" {{.*}} attributes {function = @k0,
// CHECK: plan.kernel "norm" {{.*}} attributes {function = @k1, grain = {{.*}}, rows = 8 : i64}
// CHECK: plan.kernel "parts" {{.*}} attributes {function = @k2,
plan.program @step {
  %x = plan.argument 0 : memref<64xf32>
  %y = plan.result 0 : memref<64xf32>
  %m = plan.argument 1 : memref<8x64xf32>
  %n = plan.result 1 : memref<8x64xf32>
  %c = plan.result 2 : memref<8x64xf32>
  plan.kernel "twice" reads(%x : memref<64xf32>) writes(%y : memref<64xf32>) {
  ^bb0(%a: tensor<64xf32>):
    %s = stablehlo.add %a, %a : tensor<64xf32>
    plan.yield %s : tensor<64xf32>
  }
  plan.kernel "again" reads(%x : memref<64xf32>) writes(%y : memref<64xf32>) {
  ^bb0(%a: tensor<64xf32>):
    %s = stablehlo.add %a, %a : tensor<64xf32>
    plan.yield %s : tensor<64xf32>
  }
  plan.kernel "norm" reads(%m : memref<8x64xf32>) writes(%n : memref<8x64xf32>) {
  ^bb0(%a: tensor<8x64xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
    %q = stablehlo.rsqrt %r : tensor<8xf32>
    %b = stablehlo.broadcast_in_dim %q, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
    %s = stablehlo.multiply %a, %b : tensor<8x64xf32>
    plan.yield %s : tensor<8x64xf32>
  }
  plan.kernel "parts" reads(%m : memref<8x64xf32>) writes(%c : memref<8x64xf32>) {
  ^bb0(%a: tensor<8x64xf32>):
    %l = stablehlo.slice %a [0:8, 0:32] : (tensor<8x64xf32>) -> tensor<8x32xf32>
    %h = stablehlo.slice %a [0:8, 32:64] : (tensor<8x64xf32>) -> tensor<8x32xf32>
    %n1 = stablehlo.negate %h : tensor<8x32xf32>
    %s = stablehlo.concatenate %n1, %l, dim = 1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x64xf32>
    plan.yield %s : tensor<8x64xf32>
  }
}

// CHECK-LABEL: func.func @k0(%{{.*}}: memref<64xf32>, %{{.*}}: memref<64xf32>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: memref<1xi64>)
// CHECK: scf.for
// CHECK: %[[V:.*]] = vector.load {{.*}} vector<16xf32>
// CHECK: arith.addf %[[V]], %[[V]] : vector<16xf32>
// CHECK: vector.store
// CHECK-NOT: scf.for

// The row's factor is computed once a row, between the two passes.
// CHECK-LABEL: func.func @k1(
// CHECK: scf.for
// CHECK: scf.for
// CHECK: vector.load {{.*}} vector<32xf32>
// CHECK: vector.reduction <add>
// CHECK: math.rsqrt %{{.*}} : f32
// CHECK: scf.for
// CHECK: arith.mulf {{.*}} vector<16xf32>

// One loop for each part of the concatenation, and no comparison.
// CHECK-LABEL: func.func @k2(
// CHECK-NOT: arith.cmpi
// CHECK: arith.negf
// CHECK: vector.store
// CHECK: scf.for
// CHECK-NOT: arith.negf
// CHECK: vector.store
