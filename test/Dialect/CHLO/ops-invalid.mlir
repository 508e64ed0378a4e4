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

// -----

func.func @broadcast_places(%a: tensor<4x6xf32>, %b: tensor<6xf32>) {
  // expected-error @+1 {{needs dims within the rank 2 but got 2}}
  %0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 2>} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @broadcast_sizes(%a: tensor<4x6xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{cannot broadcast dimension 0 of size 4 to dimension 1 of size 6}}
  %0 = chlo.broadcast_add %a, %b : (tensor<4x6xf32>, tensor<4xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @broadcast_rank(%p: tensor<4x6xi1>, %b: tensor<6xf32>) {
  // expected-error @+1 {{cannot broadcast 'tensor<4x6xi1>' to 'tensor<6xf32>' of lower rank}}
  %0 = chlo.broadcast_select %p, %b, %b : (tensor<4x6xi1>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @constant_like(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs a value of type 'f32' but got 1 : i32}}
  %0 = "chlo.constant_like"(%a) <{value = 1 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @ragged_result(%x: tensor<8x4xf32>, %w: tensor<3x4x5xf32>, %n: tensor<3xi32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<8x5xf32>' but got 'tensor<5x8xf32>'}}
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @ragged_sum(%x: tensor<8x4xf32>, %y: tensor<8x5xf32>, %n: tensor<3xi32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<3x4x5xf32>'}}
  %0 = "chlo.ragged_dot"(%x, %y, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<8x5xf32>, tensor<3xi32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @ragged_twice(%x: tensor<8x4xf32>, %w: tensor<4x4x5xf32>, %n: tensor<4xi32>) {
  // expected-error @+1 {{names rhs batching, contracting or group dimension 1 twice}}
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [1]>}> : (tensor<8x4xf32>, tensor<4x4x5xf32>, tensor<4xi32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @ragged_groups(%x: tensor<8x4xf32>, %w: tensor<3x4x5xf32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{needs one size per group in dimension 0}}
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<2xi32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @ragged_sizes(%x: tensor<8x4xf32>, %w: tensor<3x6x5xf32>, %n: tensor<3xi32>) {
  // expected-error @+1 {{needs equal sizes in contracting dimensions but got 4 in dimension 1}}
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x6x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>
  return
}
