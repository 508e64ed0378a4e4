// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 strict" --scalify-quantize=strict -verify-diagnostics

// Without strict it is a remark: what the recipe asks of state, and the step
// cannot have.
module attributes {scalify.recipe = #scalify.recipe<"fp16", state_rounding = nearest>} {
  func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.name = "w", scalify.role = #scalify.role<param>}, %g: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{state stays wide: 'w' has no known scale: give it one in scales= (strict)}}
    %0 = stablehlo.add %w, %g : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
