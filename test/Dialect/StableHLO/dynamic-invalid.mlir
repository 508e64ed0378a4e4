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

// -----

func.func @iota_dimension(%n: tensor<2xi32>) {
  // expected-error @+1 {{needs iota_dimension within the rank 2 but got 2}}
  %0 = stablehlo.dynamic_iota %n, dim = 2 : (tensor<2xi32>) -> tensor<?x?xi32>
  return
}

// -----

func.func @iota_shape(%n: tensor<3xi32>) {
  // expected-error @+1 {{needs 2 entries of output_shape but got 3}}
  %0 = stablehlo.dynamic_iota %n, dim = 1 : (tensor<3xi32>) -> tensor<?x?xi32>
  return
}

// -----

func.func @broadcast_dims(%a: tensor<?xf32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{needs dims within the rank 2 but got 9}}
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [9] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @broadcast_length(%a: tensor<?xf32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{needs 1 entries of dims but got 0}}
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @broadcast_shape(%a: tensor<?xf32>, %n: tensor<3xi32>) {
  // expected-error @+1 {{needs 2 entries of output_dimensions but got 3}}
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [1] : (tensor<?xf32>, tensor<3xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @broadcast_known(%a: tensor<?xf32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{names known (non-)expanding dimensions 0 twice}}
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %n, dims = [1] {known_expanding_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @pad_value(%a: tensor<?xf32>, %z: tensor<1xf32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{needs a scalar of the operand's element type to pad with}}
  %0 = stablehlo.dynamic_pad %a, %z, %n, %n, %n : (tensor<?xf32>, tensor<1xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
  return
}

// -----

func.func @pad_amounts(%a: tensor<?xf32>, %z: tensor<f32>, %n: tensor<1xi32>, %m: tensor<2xi32>) {
  // expected-error @+1 {{needs 1 entries of interior_padding but got 2}}
  %0 = stablehlo.dynamic_pad %a, %z, %n, %n, %m : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<2xi32>) -> tensor<?xf32>
  return
}

// -----

func.func @pad_rank(%a: tensor<?xf32>, %z: tensor<f32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{needs a result of the operand's rank}}
  %0 = stablehlo.dynamic_pad %a, %z, %n, %n, %n : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @reshape_elements(%a: tensor<4xf32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{cannot turn 4 elements into 5}}
  %0 = stablehlo.dynamic_reshape %a, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<5xf32>
  return
}

// -----

func.func @reshape_shape(%a: tensor<?xf32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{needs 2 entries of output_shape but got 1}}
  %0 = stablehlo.dynamic_reshape %a, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @slice_bounds(%a: tensor<?x?xf32>, %n: tensor<2xi32>, %m: tensor<1xi32>) {
  // expected-error @+1 {{needs 2 entries of strides but got 1}}
  %0 = stablehlo.real_dynamic_slice %a, %n, %n, %m : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<1xi32>) -> tensor<?x?xf32>
  return
}

// -----

func.func @slice_element(%a: tensor<?xf32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{needs one element type}}
  %0 = stablehlo.real_dynamic_slice %a, %n, %n, %n : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
  return
}

// -----

func.func @gather_window(%a: tensor<4x4xf32>, %i: tensor<3x1xi32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{needs window dimension within the rank 2 but got 5}}
  %0 = "stablehlo.dynamic_gather"(%a, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [5], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4x4xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x?xf32>
  return
}

// -----

func.func @gather_sizes(%a: tensor<4x4xf32>, %i: tensor<3x1xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{needs 2 entries of slice_sizes but got 'tensor<1xi32>'}}
  %0 = "stablehlo.dynamic_gather"(%a, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4x4xf32>, tensor<3x1xi32>, tensor<1xi32>) -> tensor<3x?xf32>
  return
}

// -----

func.func @gather_result(%a: tensor<4x4xf32>, %i: tensor<3x1xi32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<3x?xf32>'}}
  %0 = "stablehlo.dynamic_gather"(%a, %i, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4x4xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<2x?xf32>
  return
}

// -----

func.func @set_size(%a: tensor<?x4xf32>, %s: tensor<i32>) {
  // expected-error @+1 {{needs a result of the operand's rank}}
  %0 = stablehlo.set_dimension_size %a, %s, dim = 0 : (tensor<?x4xf32>, tensor<i32>) -> tensor<?xf32>
  return
}

// -----

// expected-error @+1 {{needs bounds of at least 0 but got -5}}
func.func private @bound_negative(tensor<?x4xf32, #stablehlo.bounds<-5, ?>>)

// -----

// The number that stands for '?' in a program.
// expected-error @+1 {{needs bounds of at least 0 but got -9223372036854775808}}
func.func private @bound_least(tensor<?xf32, #stablehlo.bounds<-9223372036854775808>>)

// -----

// expected-error @+1 {{needs bounds of 2 dimensions but got 1}}
func.func private @bound_count(tensor<?x4xf32, #stablehlo.bounds<8>>)

// -----

// expected-error @+1 {{has the bound 8 of dimension 1, whose size is 4; write '?'}}
func.func private @bound_static(tensor<?x4xf32, #stablehlo.bounds<8, 8>>)
