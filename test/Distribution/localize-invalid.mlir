// RUN: scalify-opt %s --scalify-localize --verify-diagnostics --split-input-file

sdy.mesh @mesh = <["x"=2]>

func.func @reverse(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'stablehlo.reverse' op needs dimension 0 of 'tensor<8xf32>' whole, but each device has 4 of 8; constrain the value with jax.lax.with_sharding_constraint}}
  %0 = stablehlo.reverse %x, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @other_axes(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %y: tensor<8xf32>) {
  // expected-error @+1 {{needs dimension 0 of 'tensor<8xf32>' and dimension 0 of 'tensor<8xf32>' split alike}}
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
  // expected-error @+1 {{cannot tell how partial results join}}
  %0 = "sdy.all_reduce"(%x) <{out_sharding = #sdy.sharding<@mesh, [{}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @returned(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  // expected-error @+1 {{returns result 0 in other parts than its sharding says}}
  return %x : tensor<8xf32>
}
