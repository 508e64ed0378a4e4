// RUN: scalify-opt %s -split-input-file -verify-diagnostics

func.func @shapes(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects operand and result of one shape, got 'tensor<8xf32>' and 'tensor<4xf8E4M3FN>'}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @format(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{result #0 must be ranked tensor of f8E4M3FN type or f8E5M2 type or 16-bit float or bfloat16 type values}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<8xf64>
  return
}

// -----

// expected-error @+1 {{expects one block size per dimension of 'tensor<4x8xf32>', got 1}}
func.func private @blocks(!scalify.scaled<tensor<4x8xf32>, block = [4]>)

// -----

// expected-error @+1 {{scaled data must be floating point, got 'tensor<4xi32>'}}
func.func private @ints(!scalify.scaled<tensor<4xi32>>)
