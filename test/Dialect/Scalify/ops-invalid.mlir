// RUN: scalify-opt %s -split-input-file -verify-diagnostics

func.func @shapes(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects operand and result of one shape, got 'tensor<8xf32>' and 'tensor<4xf8E4M3FN>'}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @format(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{result #0 must be ranked tensor of f8E4M3FN type or f8E5M2 type or 16-bit float or bfloat16 type values}}
  %0 = scalify.quantize %x, %s : tensor<8xf32> -> tensor<8xf64>
  return
}

// -----

// expected-error @+1 {{expects one block size per dimension of 'tensor<4x8xf32>', got 1}}
func.func private @blocks(!scalify.scaled<tensor<4x8xf32>, block = [4]>)

// -----

// expected-error @+1 {{scaled data must be floating point, got 'tensor<4xi32>'}}
func.func private @ints(!scalify.scaled<tensor<4xi32>>)

// -----

func.func @scales_without_blocks(%x: tensor<4x256xf32>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'scalify.quantize' op has scales of type 'tensor<4x2xf32>' and no blocks: give 'block', one size per dimension of 'tensor<4x256xf32>', or one scale of rank 0}}
  %0 = scalify.quantize %x, %s by tensor<4x2xf32> : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
  return
}

// -----

func.func @sizes(%x: tensor<4x256xf32>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'scalify.quantize' op has 1 sizes in 'block': give one per dimension of 'tensor<4x256xf32>', 0 to span a dimension}}
  %0 = scalify.quantize %x, %s by tensor<4x2xf32> {block = array<i64: 128>} : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
  return
}

// -----

func.func @negative(%x: tensor<4x256xf32>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'scalify.quantize' op has the size '-1' in 'block': give 1 or more, or 0 to span a dimension}}
  %0 = scalify.quantize %x, %s by tensor<4x2xf32> {block = array<i64: 1, -1>} : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
  return
}

// -----

func.func @counts(%q: tensor<4x300xf8E4M3FN>, %s: tensor<4x2xf32>) {
  // expected-error @+1 {{'scalify.dequantize' op has scales of type 'tensor<4x2xf32>' for blocks of [1, 128] of 'tensor<4x300xf8E4M3FN>': give 'tensor<4x3xf32>'}}
  %0 = scalify.dequantize %q, %s by tensor<4x2xf32> {block = array<i64: 1, 128>} : tensor<4x300xf8E4M3FN> -> tensor<4x300xf32>
  return
}
