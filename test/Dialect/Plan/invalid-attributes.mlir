// RUN: scalify-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{has an attribute 'plan.fence' that the plan dialect does not know}}
func.func @unknown_attribute() attributes {plan.fence} {
  return
}

// -----

func.func @misplaced_attribute(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{has 'plan.owner' on the op, where it does not belong}}
  %y = stablehlo.negate %x {plan.owner = 1 : i64} : tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @attribute_of_other_kind(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{has 'plan.task' = 2 : i64 on the op: expected a string}}
  %y = stablehlo.negate %x {plan.task = 2 : i64} : tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @shapes_of_other_kind(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{has 'plan.shapes' = [2] on the op: expected an array of arrays of i64}}
  %y = stablehlo.negate %x {plan.shapes = [2 : i64]} : tensor<f32>
  return %y : tensor<f32>
}
