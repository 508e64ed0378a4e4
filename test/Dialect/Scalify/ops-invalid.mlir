// RUN: scalify-opt %s -split-input-file -verify-diagnostics

func.func @shapes(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects operand and result of one shape, got 'tensor<8xf32>' and 'tensor<4xf8E4M3FN>'}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @format(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{result #0 must be ranked tensor of f8E4M3FN type or f8E5M2 type values}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<8xf16>
  return
}

// -----

// expected-error @+1 {{expects one block size per dimension of 'tensor<4x8xf32>', got 1}}
func.func private @blocks(!scalify.scaled<tensor<4x8xf32>, block = [4]>)

// -----

// expected-error @+1 {{scaled data must be floating point, got 'tensor<4xi32>'}}
func.func private @ints(!scalify.scaled<tensor<4xi32>>)

// -----

// expected-error @+1 {{unknown source of scales 'sometimes': expected none, propagated, current or unit}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", scales = sometimes>} {}

// -----

// expected-error @+1 {{unknown part 'colour' of a recipe}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", colour = true>} {}
