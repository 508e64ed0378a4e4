// RUN: scalify-opt %s -split-input-file -verify-diagnostics

// A misspelt attribute is no decision that gets lost.

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has an attribute 'scalify.fase' that the scalify dialect does not know}}
  %0 = stablehlo.negate %x {scalify.fase = #scalify.phase<forward>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has 'scalify.phase' = "forward" on the op: expected #scalify.phase}}
  %0 = stablehlo.negate %x {scalify.phase = "forward"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{expected ::scalify::Phase to be one of: forward, backward, optimizer}}
  // expected-error @+1 {{failed to parse Scalify_PhaseAttr parameter 'value' which is to be a `::scalify::Phase`}}
  %0 = stablehlo.negate %x {scalify.phase = #scalify.phase<later>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has 'scalify.phase' on argument 0, where it does not belong}}
func.func @main(%x: tensor<4xf32> {scalify.phase = #scalify.phase<forward>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has 'scalify.role' = "weight" on argument 0: expected #scalify.role}}
func.func @main(%x: tensor<4xf32> {scalify.role = "weight"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has 'scalify.moments' = [1.000000e+00] on argument 1: expected an array of f64}}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32> {scalify.moments = [1.0]}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has 'scalify.name' on result 0, where it does not belong}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {scalify.name = "y"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'builtin.module' op has 'scalify.scale' on the module, where it does not belong}}
module attributes {scalify.scale = 1 : i32} {
}
