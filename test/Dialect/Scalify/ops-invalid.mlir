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

// -----

func.func @nearest_at_step(%x: tensor<8xf32>, %s: tensor<f32>, %step: tensor<2xui32>) {
  // expected-error @+1 {{'scalify.quantize' op rounds to nearest and has a counter, a stream or a place: leave them out, or give 'rounding = #scalify.rounding<stochastic>'}}
  %0 = scalify.quantize %x, %s at %step : tensor<8xf32> -> tensor<8xf16>
  return
}

// -----

func.func @no_stream(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'scalify.quantize' op rounds stochastically without a 'stream': give a number that no other cast of the step has}}
  %0 = scalify.quantize %x, %s {rounding = #scalify.rounding<stochastic>} : tensor<8xf32> -> tensor<8xf16>
  return
}

// -----

func.func @stream_too_large(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'scalify.quantize' op has the stream '8589934592': give a number from 0 to 2^33 - 1}}
  %0 = scalify.quantize %x, %s {rounding = #scalify.rounding<stochastic>, stream = 8589934592 : i64} : tensor<8xf32> -> tensor<8xf16>
  return
}

// -----

func.func @stochastic_blocks(%x: tensor<4x256xf32>, %s: tensor<4x1xf32>) {
  // expected-error @+1 {{'scalify.quantize' op rounds stochastically by blocks: leave out 'block' or 'rounding'}}
  %0 = scalify.quantize %x, %s by tensor<4x1xf32> {block = array<i64: 1, 0>, rounding = #scalify.rounding<stochastic>, stream = 0 : i64} : tensor<4x256xf32> -> tensor<4x256xf16>
  return
}

// -----

func.func @nearest_in_whole(%x: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'scalify.quantize' op rounds to nearest and has a counter, a stream or a place: leave them out, or give 'rounding = #scalify.rounding<stochastic>'}}
  %0 = scalify.quantize %x, %s {whole = array<i64: 32>} : tensor<8xf32> -> tensor<8xf16>
  return
}

// -----

func.func @larger_than_whole(%x: tensor<4x8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'scalify.quantize' op has 'whole' of [8, 4]: give the shape of a tensor that 'tensor<4x8xf16>' is a part of}}
  %0 = scalify.quantize %x, %s {rounding = #scalify.rounding<stochastic>, stream = 0 : i64, whole = array<i64: 8, 4>} : tensor<4x8xf32> -> tensor<4x8xf16>
  return
}

// -----

func.func @rank_of_whole(%key: tensor<2xui32>, %stream: tensor<i32>) {
  // expected-error @+1 {{'scalify.random_bits' op has 'whole' of [64]: give the shape of a tensor that 'tensor<4x8xi32>' is a part of}}
  %0 = scalify.random_bits 0 of %key, %stream {whole = array<i64: 64>} : tensor<4x8xi32>
  return
}

// -----

func.func @key(%key: tensor<4xui32>, %stream: tensor<i32>) {
  // expected-error @+1 {{operand #0 must be two ui32: the seed and the step, but got 'tensor<4xui32>'}}
  %0 = "scalify.random_bits"(%key, %stream) {word = 0 : i64} : (tensor<4xui32>, tensor<i32>) -> tensor<8xi32>
  return
}

// -----

func.func @whole_of_too_many(%key: tensor<2xui32>, %stream: tensor<i32>) {
  // expected-error @+1 {{'scalify.random_bits' op has 'whole' of [4, 9223372036854775807]: give the shape}}
  %0 = scalify.random_bits 0 of %key, %stream {whole = array<i64: 4, 9223372036854775807>} : tensor<4x8xi32>
  return
}
