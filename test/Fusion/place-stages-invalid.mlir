// RUN: scalify-opt %s --split-input-file --scalify-place-stages="stages=2" --verify-diagnostics

// expected-error@+1 {{has 0 stage borders in sequence, and 2 stages of 1 chunks have 1 between them; mark as many by scalify.lax.stage_border}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{has 0 stage borders in its backward and 1 in its forward}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A checkpoint makes the border again.
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %x : tensor<4xf32>
  %1 = stablehlo.negate %x : tensor<4xf32>
  %2 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %1 : tensor<4xf32>
  %3 = stablehlo.add %0, %2 : tensor<4xf32>
  // expected-error@+1 {{runs 1 times in a step, and the first border 2 times}}
  %4 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %x : tensor<4xf32>
  %1 = stablehlo.negate %0 {scalify.phase = #scalify.phase<optimizer>} : tensor<4xf32>
  // expected-error@+1 {{comes after the optimizer}}
  %2 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
