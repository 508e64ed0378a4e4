// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @dynamic_slice_size(%a: tensor<4x6xf32>, %i: tensor<i32>) {
  // expected-error @+2 {{cannot take 5 elements of dimension 0 of 'tensor<4x6xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [5, 3] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @dynamic_slice_starts(%a: tensor<4x6xf32>, %i: tensor<i32>) {
  // expected-error @+2 {{needs 2 entries of start indices but got 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.dynamic_slice %a, %i, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @update_too_large(%a: tensor<4xf32>, %u: tensor<5xf32>, %i: tensor<i32>) {
  // expected-error @+2 {{has an update larger than the operand in dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.dynamic_update_slice %a, %u, %i : (tensor<4xf32>, tensor<5xf32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_result(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.gather"(%e, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @gather_slice(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>) {
  // expected-error @+2 {{has slice size 2 in dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.gather"(%e, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2, 32>}> : (tensor<64x32xf32>, tensor<8x1xi32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @gather_dims(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>) {
  // expected-error @+2 {{needs 2 entries of window, dropped and batching dimensions but got 1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.gather"(%e, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<8x1xi32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @gather_map(%e: tensor<64x32xf32>, %i: tensor<8x2xi32>) {
  // expected-error @+2 {{maps 1 indices but its index vectors have 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.gather"(%e, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 32>}> : (tensor<64x32xf32>, tensor<8x2xi32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @gather_batch(%e: tensor<3x32xf32>, %i: tensor<4x1xi32>) {
  // expected-error @+2 {{has batching dimensions of sizes 3 and 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.gather"(%e, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<3x32xf32>, tensor<4x1xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @scatter_updates(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<8x33xf32>) {
  // expected-error @+1 {{whose dimension 1 does not fit 32 of the input}}
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<8x33xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @scatter_batch(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<9x32xf32>) {
  // expected-error @+1 {{whose dimension 0 does not fit 8 of the indices}}
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<9x32xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @scatter_region(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<8x32xf32>) {
  // expected-error @+1 {{needs a reduction region with arguments}}
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<8x32xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @scatter_narrows(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<8x32xf32>) {
  // expected-error @+1 {{cannot reduce 'tensor<64x32xf32>' in elements of 'bf16'}}
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<bf16>, %y: tensor<bf16>):
    stablehlo.return %y : tensor<bf16>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<8x32xf32>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @scatter_result(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<8x32xf32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<64x32xf32>' but got 'tensor<64x31xf32>'}}
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<8x32xf32>) -> tensor<64x31xf32>
  return
}

// -----

func.func @scatter_results(%e: tensor<64x32xf32>, %i: tensor<8x1xi32>, %u: tensor<8x32xf32>) {
  // expected-error @+1 {{needs one result per input but got 0 for 1}}
  "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<64x32xf32>, tensor<8x1xi32>, tensor<8x32xf32>) -> ()
  return
}

// -----

func.func @select_dim(%a: tensor<4x5xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{needs a dim from -2 to 1 but got 2}}
  %0 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = 2 : i64}> : (tensor<4x5xf32>, tensor<3xi32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @select_batch(%a: tensor<4x5xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{needs batch_dims of at most dim 0 but got 1}}
  %0 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 1 : i64, dim = 0 : i64}> : (tensor<4x5xf32>, tensor<3xi32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @select_result(%a: tensor<4x5xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<3x5xf32>'}}
  %0 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = -2 : i64}> : (tensor<4x5xf32>, tensor<3xi32>) -> tensor<4x3xf32>
  return
}
