// RUN: scalify-opt %s --scalify-quantize="remarks=0 strict rounding-key=0" -split-input-file -verify-diagnostics

// Without strict these are remarks: what the recipe asks of state, and the step
// cannot have.
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  // expected-error @+1 {{state is rounded to nearest (1 arrays), where updates below half a last place are lost: the recipe's 'state_rounding = stochastic' needs a rounding_key, another one in each step (strict)}}
  func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = "param", scalify.scale = 0 : i32}, %g: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %w, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {scalify.recipe = #scalify.recipe<"fp16", state_rounding = nearest>} {
  func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.name = "w", scalify.role = "param"}, %g: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{state stays wide: of 'w' no scale is known: give it one in scales= (strict)}}
    %0 = stablehlo.add %w, %g : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
