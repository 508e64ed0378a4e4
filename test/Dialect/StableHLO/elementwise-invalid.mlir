// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @shapes(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{all non-scalar operands/results must have the same shape and base type}}
  %0 = stablehlo.add %a, %b : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @element_types(%a: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error @+1 {{op requires the same element type for all operands}}
  %0 = stablehlo.add %a, %b : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}

// -----

func.func @result_type(%a: tensor<4xf32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = stablehlo.exponential %a : (tensor<4xf32>) -> tensor<4xbf16>
  return
}

// -----

func.func @integer_ceil(%a: tensor<4xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor}}
  %0 = stablehlo.ceil %a : tensor<4xi32>
  return
}

// -----

func.func @not_of_float(%a: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor}}
  %0 = stablehlo.not %a : tensor<4xf32>
  return
}

// -----

func.func @unranked(%a: tensor<*xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor}}
  %0 = stablehlo.negate %a : tensor<*xf32>
  return
}

// -----

func.func @operand_count(%a: tensor<4xf32>) {
  // expected-error @+1 {{expected 2 operand types but got 1}}
  %0 = stablehlo.add %a, %a : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @compare_type(%a: tensor<4xf32>) {
  // expected-error @+1 {{cannot compare elements of type 'f32' as SIGNED}}
  %0 = stablehlo.compare LT, %a, %a, SIGNED : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

func.func @compare_result(%a: tensor<4xf32>) {
  // expected-error @+1 {{result #0 must be ranked tensor}}
  %0 = stablehlo.compare LT, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @select_shapes(%p: tensor<3xi1>, %a: tensor<4xf32>) {
  // expected-error @+1 {{needs a predicate that is a scalar or of the values' shape but got 'tensor<3xi1>' and 'tensor<4xf32>'}}
  %0 = stablehlo.select %p, %a, %a : tensor<3xi1>, tensor<4xf32>
  return
}

// -----

func.func @select_pred(%p: tensor<4xi32>, %a: tensor<4xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of pred}}
  %0 = stablehlo.select %p, %a, %a : tensor<4xi32>, tensor<4xf32>
  return
}

// -----

func.func @select_types(%p: tensor<4xi1>, %a: tensor<4xf32>) {
  // expected-error @+1 {{expected the types of predicate and value, or a function type}}
  %0 = stablehlo.select %p, %a, %a : tensor<4xi1>
  return
}

// -----

func.func @clamp_bound(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{needs 'min' to be a scalar or of the operand's shape}}
  %0 = stablehlo.clamp %b, %a, %a : (tensor<3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @precision_format(%a: tensor<4xf32>) {
  // expected-error @+1 {{expected a format such as 'e8m7' but got 'm7e8'}}
  %0 = stablehlo.reduce_precision %a, format = m7e8 : tensor<4xf32>
  return
}

// -----

func.func @accuracy(%a: tensor<4xf32>) {
  // expected-error @+1 {{result accuracy needs a tolerance exactly when its mode is TOLERANCE}}
  %0 = stablehlo.tanh %a {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
  return
}

// -----

func.func @unknown_op(%a: tensor<4xf32>) {
  // expected-error @+1 {{custom op 'stablehlo.sinus' is unknown}}
  %0 = stablehlo.sinus %a : tensor<4xf32>
  return
}
