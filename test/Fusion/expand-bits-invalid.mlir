// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-bits))' -split-input-file -verify-diagnostics

func.func @apart(%x: tensor<4xf32>) -> tensor<4x32xi1> {
  // expected-error @+1 {{between 'tensor<4xf32>' and 'tensor<4x32xi1>' has no lowering: booleans take a byte each; compare with 0, or select 1 or 0}}
  %0 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4x32xi1>
  return %0 : tensor<4x32xi1>
}

// -----

func.func @together(%x: tensor<4x8xi1>) -> tensor<4xi8> {
  // expected-error @+1 {{between 'tensor<4x8xi1>' and 'tensor<4xi8>' has no lowering: booleans take a byte each}}
  %0 = stablehlo.bitcast_convert %x : (tensor<4x8xi1>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}
