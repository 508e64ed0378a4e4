// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize=rounding-key=0 --scalify-count-steps --scalify-validate-precision -verify-diagnostics | FileCheck %s

// Who brings no random words is told that state is rounded to nearest.
// CHECK-LABEL: func.func public @main
// CHECK-NOT: scalify.step
// CHECK-NOT: rounding
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  // expected-remark @+1 {{state is rounded to nearest (2 arrays), which loses updates below half a unit in the last place: the recipe's 'state_rounding = stochastic' needs a rounding_key, a new one in each step}}
  func.func public @main(
      %w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32},
      %m: tensor<4xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<moment>},
      %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %w, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %half_m = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_m = stablehlo.multiply %m, %half_m : tensor<4xf32>
    %1 = stablehlo.add %kept_m, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
}
