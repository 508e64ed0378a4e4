// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @dimension(%a: tensor<?xf32>) {
  // expected-error @+1 {{needs dim within the rank 1 but got 1}}
  %0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<?xf32>) -> tensor<i32>
  return
}

// -----

func.func @dequantize(%a: tensor<4x!quant.uniform<i8:f32, 5.0e-01>>) {
  // expected-error @+1 {{needs a result of 'f32'}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<4x!quant.uniform<i8:f32, 5.0e-01>>) -> tensor<4xbf16>
  return
}
