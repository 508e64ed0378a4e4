// RUN: scalify-opt %s --scalify-place-stages="stages=3" --verify-diagnostics | FileCheck %s

// What passes two borders as it is, and what passes one border less than what it
// meets: both are sent straight to who reads them, and the second one was maybe
// meant to be behind a border. What reads state alone is where it is read.
// CHECK: stablehlo.negate %arg0 {plan.task = "F0.0"}
// CHECK: stablehlo.exponential %arg0 {plan.task = "F2.0"}
// CHECK: stablehlo.tanh %{{.*}} {plan.task = "F1.0"}
// CHECK: stablehlo.add %{{.*}}, %{{.*}} {plan.task = "F2.0"}
func.func @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  %0 = stablehlo.negate %w : tensor<4xf32>
  %e = stablehlo.exponential %w : tensor<4xf32>
  %1 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %0 : tensor<4xf32>
  // expected-remark@+1 {{is made by stage 1 and read by stage 2 with no border between; it is sent there}}
  %2 = stablehlo.tanh %1 : tensor<4xf32>
  %3 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %1 : tensor<4xf32>
  %4 = stablehlo.add %3, %2 : tensor<4xf32>
  %5 = stablehlo.multiply %4, %e : tensor<4xf32>
  %6 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %5 : tensor<4xf32>
  %7 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %6 : tensor<4xf32>
  %8 = stablehlo.negate %7 : tensor<4xf32>
  return %8 : tensor<4xf32>
}
