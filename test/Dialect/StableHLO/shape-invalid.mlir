// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @iota() {
  // expected-error @+1 {{needs iota_dimension within the rank 2 but got 2}}
  %0 = stablehlo.iota dim = 2 : tensor<3x4xi32>
  return
}

// -----

func.func @broadcast_size(%a: tensor<3xf32>) {
  // expected-error @+1 {{cannot broadcast dimension 0 of size 3 to dimension 1 of size 4}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_rank(%a: tensor<3xf32>) {
  // expected-error @+1 {{needs 1 entries of dims but got 0}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_twice(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{names dims 0 twice}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 0] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @broadcast_element(%a: tensor<3xf32>) {
  // expected-error @+1 {{needs one element type}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<3xf32>) -> tensor<3xbf16>
  return
}

// -----

func.func @reshape(%a: tensor<4x6xf32>) {
  // expected-error @+1 {{cannot turn 24 elements into 25}}
  %0 = stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<5x5xf32>
  return
}

// -----

func.func @transpose_twice(%a: tensor<4x6xf32>) {
  // expected-error @+2 {{names dims 0 twice}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.transpose %a, dims = [0, 0] : (tensor<4x6xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @transpose_result(%a: tensor<4x6xf32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @slice_bounds(%a: tensor<4xf32>) {
  // expected-error @+2 {{cannot take 1:5:1 of dimension 0 of 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.slice %a [1:5] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @slice_stride(%a: tensor<4xf32>) {
  // expected-error @+2 {{cannot take 1:3:0 of dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.slice %a [1:3:0] : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @slice_rank(%a: tensor<4x4xf32>) {
  // expected-error @+2 {{needs 2 entries of start_indices but got 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.slice %a [1:3] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @concatenate(%a: tensor<4x6xf32>, %b: tensor<3x5xf32>) {
  // expected-error @+2 {{cannot join 'tensor<4x6xf32>' and 'tensor<3x5xf32>' along dimension 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<4x6xf32>, tensor<3x5xf32>) -> tensor<4x11xf32>
  return
}

// -----

func.func @pad_value(%a: tensor<4xf32>) {
  // expected-error @+2 {{needs a scalar of the operand's element type to pad with}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.pad %a, %a, low = [0], high = [0], interior = [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @pad_negative(%a: tensor<4xf32>, %z: tensor<f32>) {
  // expected-error @+2 {{leaves a negative size -1 in dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.pad %a, %z, low = [-5], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @bitcast(%a: tensor<4xf32>) {
  // expected-error @+1 {{cannot reinterpret 'tensor<4xf32>' as 'tensor<4xui8>'}}
  %0 = stablehlo.bitcast_convert %a : (tensor<4xf32>) -> tensor<4xui8>
  return
}

// -----

func.func @constant() {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<5xf32>
  return
}

// -----

// Three gaps of 2^64 / 3 would be 2 elements in 64 bits.
func.func @pad_wraps(%a: tensor<4xf32>, %b: tensor<f32>) {
  // expected-error @+2 {{pads dimension 0 by more than 63 bits can count: low 0, high 0, interior 6148914691236517206}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.pad %a, %b, low = [0], high = [0], interior = [6148914691236517206] : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----

// 2^63 is the number of a dynamic size.
func.func @concatenate_wraps(%a: tensor<4611686018427387904x0xf32>) {
  // expected-error @+2 {{has a result of more elements than 63 bits can count along dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4611686018427387904x0xf32>, tensor<4611686018427387904x0xf32>) -> tensor<5x0xf32>
  return
}
