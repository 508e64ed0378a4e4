// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-prepare-plan))' -split-input-file | FileCheck %s

// A CPU multiplies BF16 operands as they are. The sum is rounded once.
// CHECK-LABEL: func.func @bf16_dot
func.func @bf16_dot(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>) -> tensor<4x2xbf16> {
  // CHECK: %[[D:.*]] = stablehlo.dot_general %arg0, %arg1{{.*}} : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
  // CHECK: stablehlo.convert %[[D]] : (tensor<4x2xf32>) -> tensor<4x2xbf16>
  %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
  return %d : tensor<4x2xbf16>
}

// -----

// It has no product of F16, of two formats or of FP8: operands are widened.
// CHECK-LABEL: func.func @narrow_dots
func.func @narrow_dots(%a: tensor<4x8xf16>, %b: tensor<8x2xbf16>) -> (tensor<4x2xf16>, tensor<4x4xf32>) {
  // CHECK-DAG: %[[A:.*]] = stablehlo.convert %{{.*}} : (tensor<4x8xf16>) -> tensor<4x8xf32>
  // CHECK-DAG: %[[B:.*]] = stablehlo.convert %{{.*}} : (tensor<8x2xbf16>) -> tensor<8x2xf32>
  // CHECK: %[[D:.*]] = stablehlo.dot_general %[[A]], %[[B]]{{.*}} -> tensor<4x2xf32>
  // CHECK: stablehlo.convert %[[D]] : (tensor<4x2xf32>) -> tensor<4x2xf16>
  // CHECK: stablehlo.dot_general %[[A]], %[[A]]{{.*}} -> tensor<4x4xf32>
  %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf16>, tensor<8x2xbf16>) -> tensor<4x2xf16>
  %e = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1] : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x4xf32>
  return %d, %e : tensor<4x2xf16>, tensor<4x4xf32>
}

// -----

// A dot of integers is a sum of products.
// CHECK-LABEL: func.func @integer_dot
func.func @integer_dot(%a: tensor<4x8xi32>, %b: tensor<8x2xi32>) -> tensor<4x2xi32> {
  // CHECK-NOT: dot_general
  // CHECK: %[[P:.*]] = stablehlo.multiply %{{.*}}, %{{.*}} : tensor<4x2x8xi32>
  // CHECK: stablehlo.reduce(%[[P]] init: %{{.*}}) applies stablehlo.add across dimensions = [2]
  %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xi32>, tensor<8x2xi32>) -> tensor<4x2xi32>
  return %d : tensor<4x2xi32>
}

// -----

// Trailing dimensions first, the others in a reduction of their own.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%a: tensor<4x8x16xf32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[I:.*]] = stablehlo.reduce(%{{.*}}) applies stablehlo.add across dimensions = [2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: stablehlo.reduce(%[[I]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 2] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// A sum of everything has two stages, whatever the number of threads.
// CHECK-LABEL: func.func @all
func.func @all(%a: tensor<256x512xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[V:.*]] = stablehlo.reshape %{{.*}} : (tensor<256x512xf32>) -> tensor<32x4096xf32>
  // CHECK: %[[I:.*]] = stablehlo.reduce(%[[V]] {{.*}} -> tensor<32xf32>
  // CHECK: stablehlo.reduce(%[[I]] {{.*}} -> tensor<f32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<256x512xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @barrier
// CHECK-NOT: optimization_barrier
// CHECK: return %arg0
func.func @barrier(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.optimization_barrier %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
