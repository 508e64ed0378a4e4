// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @rng_state(%k: tensor<2xui64>) {
  // expected-error @+1 {{needs a next state of type 'tensor<2xui64>'}}
  %0, %1 = stablehlo.rng_bit_generator %k, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<3xui64>, tensor<3xui32>)
  return
}

// -----

func.func @rng_algorithm(%k: tensor<2xui64>) {
  // expected-error @+2 {{to be one of: DEFAULT, THREE_FRY, PHILOX}}
  // expected-error @+1 {{failed to parse StableHLO_RngAlgorithmAttr}}
  %0, %1 = stablehlo.rng_bit_generator %k, algorithm = MERSENNE : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
  return
}

// -----

func.func @fft_kind(%a: tensor<8xf32>) {
  // expected-error @+1 {{cannot take FFT from}}
  %0 = stablehlo.fft %a, type = FFT, length = [8] : (tensor<8xf32>) -> tensor<8xcomplex<f32>>
  return
}

// -----

func.func @fft_length(%a: tensor<8xf32>) {
  // expected-error @+1 {{has lengths that do not fit}}
  %0 = stablehlo.fft %a, type = RFFT, length = [8] : (tensor<8xf32>) -> tensor<8xcomplex<f32>>
  return
}

// -----

func.func @cholesky(%a: tensor<4x5xf32>) {
  // expected-error @+1 {{needs square matrices}}
  %0 = stablehlo.cholesky %a : tensor<4x5xf32>
  return
}

// -----

func.func @batch_norm(%a: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @+1 {{needs one element per feature}}
  %0 = "stablehlo.batch_norm_inference"(%a, %s, %s, %s, %s) <{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @rng_parameters(%a: tensor<2xf32>, %n: tensor<1xi64>) {
  // expected-error @+1 {{needs parameters of type 'tensor<f32>'}}
  %0 = stablehlo.rng %a, %a, %n, distribution = UNIFORM : (tensor<2xf32>, tensor<2xf32>, tensor<1xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @rng_shape(%a: tensor<f32>, %n: tensor<2xi64>) {
  // expected-error @+1 {{needs 1 entries of shape but got 'tensor<2xi64>'}}
  %0 = stablehlo.rng %a, %a, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4xf32>
  return
}
