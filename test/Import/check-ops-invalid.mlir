// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-check-ops))' -split-input-file -verify-diagnostics
// RUN: not scalify-opt %s --scalify-import -split-input-file 2>&1 | FileCheck %s

// Folds of tensors met these scalars.

// CHECK: error: 'memref.store' op is not a stablehlo op
func.func public @main(%x: memref<64xf64>, %y: memref<64xf32>, %at: index) {
  %v = memref.load %x[%at] : memref<64xf64>
  %n = arith.truncf %v : f64 to f32
  // expected-error @+1 {{'memref.store' op is not a stablehlo op}}
  memref.store %n, %y[%at] : memref<64xf32>
  return
}

// -----

// In a region, of a value that is used.
// CHECK: error: 'arith.negf' op is not a stablehlo op
func.func public @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    // expected-error @+1 {{'arith.negf' op is not a stablehlo op}}
    %s = arith.negf %l : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
