// RUN: scalify-opt %s --scalify-validate-precision -verify-diagnostics -split-input-file

func.func @hint(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{is left after quantisation}}
  %0 = scalify.scale_hint %x, %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @half(%q: tensor<4x8xf8E4M3FN>, %w: tensor<8x2xf32>, %s: tensor<f32>) -> tensor<4x2xf32> {
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  // expected-error @+1 {{has one narrow operand and one wide operand}}
  %y = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @unmarked(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
    // expected-error @+1 {{is neither on narrow operands nor marked scalify.wide with a reason}}
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    return %y : tensor<4x2xf32>
  }
}

// -----

func.func @calls(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+1 {{is left after quantisation}}
  %0 = scalify.override_scale %x, %s : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @twice(%x: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf8E5M2>, tensor<4xf8E5M2>) {
  // expected-note @+1 {{first cast here}}
  %0 = scalify.quantize %x, %s : tensor<4xf32> -> tensor<4xf8E5M2>
  // expected-error @+1 {{casts a value that is cast already}}
  %1 = scalify.quantize %x, %s : tensor<4xf32> -> tensor<4xf8E5M2>
  return %0, %1 : tensor<4xf8E5M2>, tensor<4xf8E5M2>
}

// -----

// expected-error @+1 {{argument 'w', which is stored narrow, is read other than at its scale of 2^-5}}
func.func @scale(%w: tensor<4xf16> {scalify.name = "w", scalify.stored = {exponent = -5 : i64, root = false}, tf.aliasing_output = 0 : i32}) -> tensor<4xf16> {
  %s = stablehlo.constant dense<3.125000e-02> : tensor<f32>
  %t = stablehlo.constant dense<6.250000e-02> : tensor<f32>
  // expected-note @+1 {{read here}}
  %x = scalify.dequantize %w, %t : tensor<4xf16> -> tensor<4xf32>
  %q = scalify.quantize %x, %s {scalify.state = "value"} : tensor<4xf32> -> tensor<4xf16>
  return %q : tensor<4xf16>
}

// -----

// expected-error @+1 {{argument 'w', which is stored narrow, is donated to a result that is not data of its type at its scale of 2^-5}}
func.func @written(%w: tensor<4xf16> {scalify.name = "w", scalify.stored = {exponent = -5 : i64, root = false}, tf.aliasing_output = 0 : i32}) -> tensor<4xf16> {
  %s = stablehlo.constant dense<3.125000e-02> : tensor<f32>
  %t = stablehlo.constant dense<6.250000e-02> : tensor<f32>
  %x = scalify.dequantize %w, %s : tensor<4xf16> -> tensor<4xf32>
  %q = scalify.quantize %x, %t {scalify.state = "value"} : tensor<4xf32> -> tensor<4xf16>
  return %q : tensor<4xf16>
}

// -----

// expected-error @+1 {{argument 'w', which is stored narrow, is donated to no result}}
func.func @given(%w: tensor<4xf16> {scalify.name = "w", scalify.stored = {exponent = -5 : i64, root = false}}) -> tensor<4xf32> {
  %s = stablehlo.constant dense<3.125000e-02> : tensor<f32>
  %x = scalify.dequantize %w, %s : tensor<4xf16> -> tensor<4xf32>
  return %x : tensor<4xf32>
}
