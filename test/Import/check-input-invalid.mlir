// RUN: scalify-opt %s --scalify-check-input -split-input-file -verify-diagnostics
// RUN: not scalify-opt %s --scalify-import -split-input-file 2>&1 | FileCheck %s

// Later stages trust these attributes, so no text may bring them along.

// CHECK: error: 'stablehlo.dot' op has 'scalify.formats'
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{'stablehlo.dot' op has 'scalify.formats', which a stage of the compiler decides; remove it}}
  %0 = stablehlo.dot %x, %x {scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// Of an argument it is declared; of an op it is Scaling's.
func.func @main(%x: tensor<4xf32> {scalify.scale = 2 : i32}) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has 'scalify.scale', which a stage of the compiler decides; remove it}}
  %0 = stablehlo.negate %x {scalify.scale = 2 : i32} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK: error: 'func.func' op has 'scalify.stored'
// expected-error @+1 {{'func.func' op has 'scalify.stored', which a stage of the compiler decides; remove it}}
func.func @main(%x: tensor<4xf32> {scalify.stored = {}}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'builtin.module' op has 'scalify.report', which a stage of the compiler decides; remove it}}
module attributes {scalify.report = [{}]} {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// In a region, and of a plan.
func.func @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    // expected-error @+1 {{'stablehlo.add' op has 'plan.materialise', which a stage of the compiler decides; remove it}}
    %s = stablehlo.add %l, %r {plan.materialise} : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
