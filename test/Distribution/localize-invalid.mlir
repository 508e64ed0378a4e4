// RUN: scalify-opt %s --scalify-localize --verify-diagnostics --split-input-file

sdy.mesh @mesh = <["x"=2]>

func.func @reverse(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'stablehlo.reverse' op needs dimension 0 of 'tensor<8xf32>' whole, but each device has 4 of 8; constrain the value with jax.lax.with_sharding_constraint}}
  %0 = stablehlo.reverse %x, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

// A window of one element, and padding that shifts what it sees.
func.func @shift(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %init: tensor<f32>) {
  // expected-error @+1 {{'stablehlo.reduce_window' op needs dimension 0 of 'tensor<8xf32>' whole}}
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 1>, padding = dense<[[1, -1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @other_axes(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %y: tensor<8xf32>) {
  // expected-error @+1 {{needs dimension 0 of 'tensor<8xf32>' and dimension 0 of 'tensor<8xf32>' sharded identically}}
  %0 = stablehlo.add %x, %y {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=3]>

// expected-error @+1 {{has dimension 0 of 8 elements in 3 parts, which do not divide it}}
func.func @uneven(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2], device_ids=[1, 0]>

// expected-error @+1 {{is on a mesh whose devices are not in order}}
func.func @order(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @reshape(%x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  // expected-error @+1 {{do not hold the same elements of the whole value}}
  %0 = stablehlo.reshape %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<4x6xf32>) -> tensor<24xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @start_counts_twice(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<f32>) {
  // expected-error @+1 {{needs dimension 0 of 'tensor<8xf32>' whole}}
  %0 = stablehlo.reduce(%x init: %start) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @of_what(%x: tensor<8xf32>) {
  // expected-error @+1 {{reduces over axes along which its operand is not a partial result}}
  %0 = "sdy.all_reduce"(%x) <{out_sharding = #sdy.sharding<@mesh, [{}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @returned(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  // expected-error @+1 {{returns result 0 sharded differently than declared}}
  return %x : tensor<8xf32>
}

// -----

// A part of a sum that nothing completes.

sdy.mesh @mesh = <["x"=2]>

func.func @open_sum(%x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                    %y: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  // expected-error @+1 {{which is still a partial result on each device; reduce it with a collective first}}
  return %0 : tensor<3x5xf32>
}

// -----

// Summed along one axis of two.

sdy.mesh @mesh = <["x"=2, "y"=2]>

func.func @half_a_sum(%x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>},
                      %y: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<3x5xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"y"}>}> : (tensor<3x5xf32>) -> tensor<3x5xf32>
  // expected-error @+1 {{which is still a partial result on each device}}
  return %1 : tensor<3x5xf32>
}

// -----

// A device would look its own indices up in its own rows only.

sdy.mesh @mesh = <["x"=2]>

func.func @rows_and_indices(%table: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                            %ids: tensor<4x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  // expected-error @+1 {{has dimension 0 of 'tensor<4x3xf32>' split by axes over which it would be summed}}
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>
  return
}

// -----

// Branches whose parts have the type that is wanted, and are others.

sdy.mesh @mesh = <["x"=2, "y"=2]>

func.func @branches(%p: tensor<i1>, %a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                    %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<8xf32>
  }, {
    // expected-error @+1 {{needs dimension 0 of 'tensor<8xf32>' and dimension 0 of 'tensor<8xf32>' sharded identically}}
    stablehlo.return %b : tensor<8xf32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<i1>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>

func.func @manual(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
  // expected-error @+1 {{has dimension 0 of 'tensor<8xf32>' sharded differently than declared}}
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%part: tensor<4xf32>) {
    sdy.return %part : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// Every device would write its piece at the same place.

sdy.mesh @mesh = <["x"=2]>

func.func @pieces(%a: tensor<8xf32>, %piece: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %at: tensor<i32>) {
  // expected-error @+1 {{needs dimension 0 of 'tensor<4xf32>' whole}}
  %0 = stablehlo.dynamic_update_slice %a, %piece, %at : (tensor<8xf32>, tensor<4xf32>, tensor<i32>) -> tensor<8xf32>
  return
}

// -----

// Row 0 of the second dimension is the first device's alone.

sdy.mesh @mesh = <["x"=2]>

func.func @row_zero(%a: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %ids: tensor<3x1xi32>, %updates: tensor<3xf32>) {
  // expected-error @+1 {{needs dimension 1 of 'tensor<6x8xf32>' whole}}
  %0 = "stablehlo.scatter"(%a, %ids, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%b: tensor<f32>, %c: tensor<f32>):
    %1 = stablehlo.add %b, %c : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : (tensor<6x8xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<6x8xf32>
  return
}
