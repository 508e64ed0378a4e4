// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @top_k_too_many(%a: tensor<4xf32>) {
  // expected-error @+2 {{'chlo.top_k' op takes 5 of the 4 elements in the last dimension}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = chlo.top_k(%a, k = 5) : tensor<4xf32> -> (tensor<5xf32>, tensor<5xi32>)
  return
}

// -----

func.func @top_k_indices(%a: tensor<4xf32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0:2 = chlo.top_k(%a, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @square_of_predicate(%a: tensor<4xi1>) {
  // expected-error @+1 {{operand #0 must be ranked tensor}}
  %0 = chlo.square %a : tensor<4xi1> -> tensor<4xi1>
  return
}

// -----

func.func @unknown(%a: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'chlo.sinus' is unknown}}
  %0 = chlo.sinus %a : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @ragged(%x: tensor<8x4xf32>, %w: tensor<3x4x5xf32>, %n: tensor<3xi32>) {
  // expected-error @+1 {{needs one ragged dimension but got 0}}
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>
  return
}
