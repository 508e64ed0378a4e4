// RUN: scalify-opt %s --scalify-even-shardings --split-input-file --verify-diagnostics

func.func @unknown_mesh(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{'stablehlo.negate' op names the unknown mesh @mesh}}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @rank(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has a sharding of rank 2 for a value of type 'tensor<6xf32>'}}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @number(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has 2 shardings for 1 results}}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{}]>]>} : tensor<6xf32>
  return %0 : tensor<6xf32>
}
