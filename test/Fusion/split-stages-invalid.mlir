// RUN: scalify-opt %s --split-input-file --scalify-split-stages --verify-diagnostics

// A forward that reads what a later one makes.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 2 : i64}} {
  plan.program @step attributes {plan.args = [{}], plan.arg_types = [tensor<4xf32>], plan.results = [{}], plan.result_types = [tensor<4xf32>]} {
    %x = plan.argument 0 : memref<4xf32>
    %y = plan.result 0 : memref<4xf32>
    %t = plan.temp : memref<4xf32>
    plan.kernel "late" reads(%x : memref<4xf32>) writes(%t : memref<4xf32>) attributes {plan.task = "B1.1"} {
    ^bb0(%0: tensor<4xf32>):
      %1 = stablehlo.negate %0 : tensor<4xf32>
      plan.yield %1 : tensor<4xf32>
    }
    // expected-error@+1 {{runs on stage 0 before stage 1 has computed its operand ('B1.1 late')}}
    plan.kernel "early" reads(%t : memref<4xf32>) writes(%y : memref<4xf32>) attributes {plan.task = "F0.0"} {
    ^bb0(%0: tensor<4xf32>):
      %1 = stablehlo.negate %0 : tensor<4xf32>
      plan.yield %1 : tensor<4xf32>
    }
  }
}

// -----

// The same on one stage.
module attributes {plan.pipeline = {stages = 2 : i64, virtual = 1 : i64, microbatches = 2 : i64}} {
  plan.program @step attributes {plan.args = [{}], plan.arg_types = [tensor<4xf32>], plan.results = [{}], plan.result_types = [tensor<4xf32>]} {
    %x = plan.argument 0 : memref<4xf32>
    %y = plan.result 0 : memref<4xf32>
    %t = plan.temp : memref<4xf32>
    plan.kernel "late" reads(%x : memref<4xf32>) writes(%t : memref<4xf32>) attributes {plan.task = "F0.1"} {
    ^bb0(%0: tensor<4xf32>):
      %1 = stablehlo.negate %0 : tensor<4xf32>
      plan.yield %1 : tensor<4xf32>
    }
    // expected-error@+1 {{runs on stage 0 in task F0.0 before its operand is computed in task F0.1}}
    plan.kernel "early" reads(%t : memref<4xf32>) writes(%y : memref<4xf32>) attributes {plan.task = "F0.0"} {
    ^bb0(%0: tensor<4xf32>):
      %1 = stablehlo.negate %0 : tensor<4xf32>
      plan.yield %1 : tensor<4xf32>
    }
  }
}
