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

// -----

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{an operand has the format 'f32': expected f8E4M3FN, f8E5M2, f16 or bf16}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] {scalify.formats = #scalify.formats<f32, f16>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{operands have the formats 'f8E4M3FN' and 'bf16', which cannot meet in one dot}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] {scalify.formats = #scalify.formats<f8E4M3FN, bf16>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{a block has the size array<i64: -1, 128>: expected 1 or more along each dimension, or 0 for the whole dimension}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] {scalify.formats = #scalify.formats<f8E4M3FN by [-1, 128], f8E4M3FN>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{'scalify.flat'}}
func.func @flat(%w: tensor<4xf32> {scalify.flat = {parts = [array<f64: 2.0>], whole = tensor<8xf32>}}) { return }

// -----

// expected-error @+1 {{'scalify.flat'}}
func.func @flat_of_nothing(%w: tensor<4xf32> {scalify.flat = {parts = [array<i64: 2>]}}) { return }

// -----

// expected-error @+1 {{'scalify.parts'}}
func.func @parts(%w: tensor<4xf32> {scalify.parts = [array<f64: 2.0>]}) { return }

// -----

// expected-error @+1 {{'scalify.whole_type'}}
func.func @whole(%w: tensor<4xf32> {scalify.whole_type = f32}) { return }

// -----

// expected-error @+1 {{'scalify.scale'}}
func.func @unsigned(%w: tensor<4xf32> {scalify.scale = 1 : ui64}) { return }

// -----

// expected-error @+1 {{'scalify.casts'}}
func.func @casts(%w: tensor<4xf32> {scalify.casts = [1, {}]}) { return }

// -----

// expected-error @+1 {{'scalify.priors'}}
module attributes {scalify.priors = [5]} {
}

// -----

// expected-error @+1 {{'scalify.provenance'}}
module attributes {scalify.provenance = [{loc = loc("x"), from = array<i32>}]} {
}

// -----

func.func @carries(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'scalify.growing_carries'}}
  %0 = stablehlo.negate %x {scalify.growing_carries = [{carry = 340282366920938463463374607431768211455 : i128}]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{has 'scalify.carry_scales', but is no loop and no branch}}
func.func @scales_of_a_function(%x: tensor<4xf32>) attributes {scalify.carry_scales = array<i64>} { return }

// -----

func.func @scales_of_carries(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  // expected-error @+1 {{has 2 scales of carries for 1 results}}
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) {scalify.carry_scales = array<i64: 0, 0>} : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @growing(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  // expected-error @+1 {{has no carry 1 that grows}}
  %0 = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) {scalify.growing_carries = [{carry = 1 : i64}]} : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{expected an array of dictionaries with 'loc', 'type' and 'from' in it}}
module attributes {scalify.provenance = [{loc = loc("x"), type = f32, from = array<i32: 1>}]} {
}

// -----

func.func @formats_of_a_sum(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 'scalify.formats', but is no product}}
  %0 = stablehlo.add %x, %x {scalify.formats = #scalify.formats<f16, f16>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @plain_scales(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{expected an array of two i32 from -1074 to 1023}}
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] {scalify.plain_scales = array<i32: 2147483647, -2147483648>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
