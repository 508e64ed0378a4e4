// RUN: scalify-opt %s -verify-diagnostics -split-input-file

// Two temporaries that live at the same time in the same bytes.
plan.program @overlap attributes {arena_bytes = 128 : i64} {
  %x = plan.argument 0 : memref<16xf32>
  // expected-note @+1 {{the other temporary}}
  %a = plan.temp at 0 : memref<16xf32>
  // expected-error @+1 {{shares memory with another temporary that is live}}
  %b = plan.temp at 32 : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  plan.copy %x to %b : memref<16xf32>, memref<16xf32>
  plan.copy %a to %x : memref<16xf32>, memref<16xf32>
}

// -----

plan.program @outside attributes {arena_bytes = 32 : i64} {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{ends at byte 64 of an arena of 32 bytes}}
  %a = plan.temp at 0 : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
}

// -----

plan.program @no_offset attributes {arena_bytes = 64 : i64} {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{has no offset, but the program has an arena}}
  %a = plan.temp : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
}

// -----

plan.program @bounds {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{touches element 16 of operand 1, which has 16}}
  plan.gemm "dot" %x, %x, %x m 4 n 4 k 4 strides [4, 1] x [4, 1] to [4, 1] offsets [0, 1, 0] batch [] [] alpha 1.0 : memref<16xf32>, memref<16xf32>, memref<16xf32>
}

// -----

plan.program @kernel_arguments {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{reads 1 buffers, but its body has 0 arguments}}
  plan.kernel "k" reads(%x : memref<16xf32>) writes(%x : memref<16xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<16xf32>
    plan.yield %c : tensor<16xf32>
  }
}

// -----

plan.program @kernel_yield {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{yields a value of type 'tensor<8xf32>' for a buffer of type 'memref<16xf32>'}}
  plan.kernel "k" writes(%x : memref<16xf32>) {
    %c = stablehlo.constant dense<0.0> : tensor<8xf32>
    plan.yield %c : tensor<8xf32>
  }
}

// -----

plan.program @copy_size {
  %x = plan.argument 0 : memref<16xf32>
  %y = plan.result 0 : memref<8xf32>
  // expected-error @+1 {{copies 64 bytes to a buffer of 32}}
  plan.copy %x to %y : memref<16xf32>, memref<8xf32>
}

// -----

plan.program @step {
  %0 = plan.argument 0 : memref<32x16xf8E4M3FN>
  %1 = plan.argument 1 : memref<16x32xf8E4M3FN>
  %2 = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{has FP8 operand 0, which must lie along the sum, in multiples of 16 elements}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 32 strides [1, 16] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<32x16xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @step {
  %0 = plan.argument 0 : memref<16x32xbf16>
  %1 = plan.argument 1 : memref<16x32xbf16>
  %2 = plan.result 0 : memref<16x16xf32>
  %3 = plan.argument 2 : memref<f32>
  // expected-error @+1 {{takes two scales, those of its FP8 operands}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%3, %3 : memref<f32>, memref<f32>) : memref<16x32xbf16>, memref<16x32xbf16>, memref<16x16xf32>
}

// -----

plan.program @part_size {
  %x = plan.temp : memref<16xf32>
  // expected-error @+1 {{has bytes 32 to 96 of a temporary of 64}}
  %y = plan.temp part of %x : memref<16xf32> from 32 : memref<16xf32>
}

// -----

plan.program @part_of_argument {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{must be a part of a temporary that is no part itself}}
  %y = plan.temp part of %x : memref<16xf32> from 0 : memref<8xf32>
}

// -----

plan.program @part_offset {
  %x = plan.temp at 64 : memref<16xf32>
  // expected-error @+1 {{lies at byte 64, but its whole at 64}}
  %y = plan.temp at 64 part of %x : memref<16xf32> from 32 : memref<8xf32>
}

// -----

plan.program @two_squares {
  %0 = plan.argument 0 : memref<16x32xf8E4M3FN>
  %1 = plan.argument 1 : memref<16x32xf8E4M3FN>
  %2 = plan.result 0 : memref<16x16xf32>
  %3 = plan.argument 2 : memref<4xf32>
  // expected-error @+1 {{has scales by blocks x blocks, which the library does not multiply}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%3, %3 : memref<4xf32>, memref<4xf32>) by blocks x blocks : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @rows_and_one {
  %0 = plan.argument 0 : memref<16x32xf8E4M3FN>
  %1 = plan.argument 1 : memref<16x32xf8E4M3FN>
  %2 = plan.result 0 : memref<16x16xf32>
  %3 = plan.argument 2 : memref<16xf32>
  %4 = plan.argument 3 : memref<f32>
  // expected-error @+1 {{has scales by rows x tensor, which the library does not multiply}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%3, %4 : memref<16xf32>, memref<f32>) by rows x tensor : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @few_scales {
  %0 = plan.argument 0 : memref<16x256xf8E4M3FN>
  %1 = plan.argument 1 : memref<16x256xf8E4M3FN>
  %2 = plan.result 0 : memref<16x16xf32>
  %3 = plan.argument 2 : memref<2x16xf32>
  %4 = plan.argument 3 : memref<2xf32>
  // expected-error @+1 {{has scales of type 'memref<2xf32>', not 4 of F32}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 256 strides [256, 1] x [1, 256] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%3, %4 : memref<2x16xf32>, memref<2xf32>) by vectors x blocks : memref<16x256xf8E4M3FN>, memref<16x256xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @batch_of_rows {
  %0 = plan.argument 0 : memref<2x16x32xf8E4M3FN>
  %1 = plan.argument 1 : memref<2x16x32xf8E4M3FN>
  %2 = plan.result 0 : memref<2x16x16xf32>
  %3 = plan.argument 2 : memref<16xf32>
  // expected-error @+1 {{has a batch, and more than one scale an operand}}
  plan.gemm "dot" %0, %1, %2 m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [2] [512, 512, 256] alpha 1.0 scales(%3, %3 : memref<16xf32>, memref<16xf32>) by rows x rows : memref<2x16x32xf8E4M3FN>, memref<2x16x32xf8E4M3FN>, memref<2x16x16xf32>
}

// -----

plan.program @no_scales {
  %0 = plan.argument 0 : memref<16x32xf8E4M3FN>
  %2 = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{has a layout of scales, but no scales}}
  plan.gemm "dot" %0, %0, %2 m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 by rows x rows : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @part_of_what_is_gone {
  %x = plan.argument 0 : memref<2x16xf32>
  %p = plan.argument 0 {plan.offset = 64 : i64} : memref<16xf32>
  %r = plan.result 0 aliases 0 : memref<2x16xf32>
  %s = plan.result 1 : memref<16xf32>
  plan.kernel "negate" reads(%x : memref<2x16xf32>) writes(%r : memref<2x16xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%v: tensor<2x16xf32>):
    %n = stablehlo.negate %v : tensor<2x16xf32>
    plan.yield %n : tensor<2x16xf32>
  }
  // expected-error @+1 {{reads argument 0, whose memory a result has overwritten}}
  plan.copy %p to %s : memref<16xf32>, memref<16xf32>
}

// -----

plan.program @part_beside_the_write {
  %x = plan.argument 0 : memref<2x16xf32>
  %p = plan.argument 0 {plan.offset = 64 : i64} : memref<16xf32>
  %r = plan.result 0 aliases 0 : memref<2x16xf32>
  // expected-error @+1 {{reads argument 0, whose memory a result has overwritten}}
  plan.kernel "add" reads(%x, %p : memref<2x16xf32>, memref<16xf32>) writes(%r : memref<2x16xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%v: tensor<2x16xf32>, %w: tensor<16xf32>):
    %b = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<16xf32>) -> tensor<2x16xf32>
    %n = stablehlo.add %v, %b : tensor<2x16xf32>
    plan.yield %n : tensor<2x16xf32>
  }
}

// -----

plan.program @five_rows {
  %0 = plan.argument 0 : memref<5x256xf8E4M3FN>
  %1 = plan.argument 1 : memref<16x256xf8E4M3FN>
  %2 = plan.result 0 : memref<5x16xf32>
  %3 = plan.argument 2 : memref<2x5xf32>
  %4 = plan.argument 3 : memref<4xf32>
  // expected-error @+1 {{has scales by blocks, and rows that are no multiple of 4}}
  plan.gemm "dot" %0, %1, %2 m 5 n 16 k 256 strides [256, 1] x [1, 256] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%3, %4 : memref<2x5xf32>, memref<4xf32>) by vectors x blocks : memref<5x256xf8E4M3FN>, memref<16x256xf8E4M3FN>, memref<5x16xf32>
}

// -----

plan.program @narrow_rows {
  %0 = plan.argument 0 : memref<16x32xf8E4M3FN>
  %1 = plan.argument 1 : memref<20x32xf8E4M3FN>
  %2 = plan.result 0 : memref<16x20xbf16>
  // expected-error @+1 {{has FP8 operands, and a result whose rows are no multiples of 16 bytes}}
  plan.gemm "dot" %0, %1, %2 m 16 n 20 k 32 strides [32, 1] x [1, 32] to [20, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<16x32xf8E4M3FN>, memref<20x32xf8E4M3FN>, memref<16x20xbf16>
}

// -----

plan.program @attention_format {
  %q = plan.argument 0 : memref<1x16x2x8xf32>
  %o = plan.result 0 : memref<1x16x2x8xf32>
  %s = plan.temp : memref<1x2x16xf32>
  // expected-error @+1 {{multiplies 'f32', not bf16 or f16}}
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xf32>, memref<1x16x2x8xf32>, memref<1x16x2x8xf32>) writes(%o, %s : memref<1x16x2x8xf32>, memref<1x2x16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0
}

// -----

plan.program @attention_reads {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  // expected-error @+1 {{must read 3 buffers and write 2}}
  plan.attention "attention" reads(%q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0
}

// -----

plan.program @attention_heads {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  // expected-error @+1 {{needs six positive sizes, heads a multiple of key heads}}
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 3, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0
}

// -----

plan.program @attention_bounds {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  // expected-error @+1 {{touches element 270 of matrix 2, which has 256}}
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 17, 0, 256, 8, 16] scale 1.0
}

// -----

plan.program @attention_statistics {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<16xf32>
  // expected-error @+1 {{needs statistics of one F32 number a row, not 'memref<16xf32>'}}
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0
}

// -----

plan.program @attention_causal {
  %q = plan.argument 0 : memref<1x8x2x8xbf16>
  %k = plan.argument 1 : memref<1x16x2x8xbf16>
  %o = plan.result 0 : memref<1x8x2x8xbf16>
  %s = plan.temp : memref<1x2x8xf32>
  // expected-error @+1 {{is causal, and needs as many queries as keys}}
  plan.attention "attention" reads(%q, %k, %k : memref<1x8x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x8x2x8xbf16>, memref<1x2x8xf32>) sizes [1, 2, 2, 8, 16, 8] windows [0, 128, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 128, 8, 16] scale 1.0 causal
}

// -----

// The argument is gone once an attention has written where it lay.
plan.program @attention_over_an_argument {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %d = plan.argument 1 : memref<1x16x2x8xbf16>
  %o = plan.result 0 aliases 1 : memref<1x16x2x8xbf16>
  %c = plan.result 1 : memref<1x16x2x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  plan.attention "attention" reads(%q, %q, %q : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 2, 2, 16, 16, 8] windows [0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16] scale 1.0
  // expected-error @+1 {{reads argument 1, whose memory a result has overwritten}}
  plan.copy %d to %c : memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>
}

// -----

plan.program @tf32_of_bf16 {
  %a = plan.argument 0 : memref<4x8xbf16>
  %b = plan.argument 1 : memref<8x4xbf16>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{has 'tf32' and an operand that is not F32}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 tf32 : memref<4x8xbf16>, memref<8x4xbf16>, memref<4x4xf32>
}

// -----

plan.program @epilogue_without_its_bias {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{adds a bias, but has none}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue bias : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @bias_without_its_epilogue {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %v = plan.argument 2 : memref<4xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{has a bias, but no epilogue that adds it}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0, 0] batch [] [] alpha 1.0 epilogue relu bias(%v : memref<4xf32>) : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @bias_without_its_offset {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %v = plan.argument 2 : memref<4xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{needs three offsets, and one more for a bias}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue bias bias(%v : memref<4xf32>) : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @bias_of_another_type {
  %a = plan.argument 0 : memref<4x8xbf16>
  %b = plan.argument 1 : memref<8x4xbf16>
  %v = plan.argument 2 : memref<4xf32>
  %c = plan.result 0 : memref<4x4xbf16>
  // expected-error @+1 {{has a bias of 'f32', and the library adds one of 'bf16'}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0, 0] batch [] [] alpha 1.0 epilogue bias_relu bias(%v : memref<4xf32>) : memref<4x8xbf16>, memref<8x4xbf16>, memref<4x4xbf16>
}

// -----

plan.program @bias_of_fp8 {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %v = plan.argument 1 : memref<16xf32>
  %c = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{has a bias of 'f32', and the library adds one of 'bf16'}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0, 0] batch [] [] alpha 1.0 epilogue bias bias(%v : memref<16xf32>) : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @bias_too_short {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %v = plan.argument 2 : memref<7xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{reads element 7 of a bias of 7}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0, 4] batch [] [] alpha 1.0 epilogue bias bias(%v : memref<7xf32>) : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @bias_misplaced {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %v = plan.argument 2 : memref<8xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{has a bias that lies at no multiple of 16 bytes}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [4, 1] offsets [0, 0, 0, 2] batch [] [] alpha 1.0 epilogue bias bias(%v : memref<8xf32>) : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @epilogue_of_columns {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x4xf32>
  %c = plan.result 0 : memref<4x4xf32>
  // expected-error @+1 {{has an epilogue, and rows that are not contiguous}}
  plan.gemm "dot" %a, %b, %c m 4 n 4 k 8 strides [8, 1] x [4, 1] to [1, 4] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue relu : memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>
}

// -----

plan.program @epilogue_of_many_scales {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %s = plan.argument 1 : memref<16xf32>
  %c = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{has an epilogue, and more than one scale an operand}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 scales(%s, %s : memref<16xf32>, memref<16xf32>) by rows x rows epilogue relu : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @epilogue_of_a_batch_of_fp8 {
  %a = plan.argument 0 : memref<2x16x32xf8E4M3FN>
  %c = plan.result 0 : memref<2x16x16xf32>
  // expected-error @+1 {{has an epilogue, and a batch of FP8 products}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [2] [512, 512, 256] alpha 1.0 epilogue relu : memref<2x16x32xf8E4M3FN>, memref<2x16x32xf8E4M3FN>, memref<2x16x16xf32>
}

// -----

plan.program @aux_without_gelu {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %h = plan.temp : memref<4x8xf32>
  %c = plan.result 0 : memref<4x8xf32>
  // expected-error @+1 {{has 'aux', but no ReLU or GELU}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 aux(%h : memref<4x8xf32>) : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
}

// -----

plan.program @aux_of_another_type {
  %a = plan.argument 0 : memref<4x8xbf16>
  %b = plan.argument 1 : memref<8x8xbf16>
  %h = plan.temp : memref<4x8xf32>
  %c = plan.result 0 : memref<4x8xbf16>
  // expected-error @+1 {{has a GELU's input in another layout than its result}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu aux(%h : memref<4x8xf32>) : memref<4x8xbf16>, memref<8x8xbf16>, memref<4x8xbf16>
}

// -----

plan.program @aux_of_odd_rows {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x12xf32>
  %h = plan.temp : memref<4x12xf32>
  %c = plan.result 0 : memref<4x12xf32>
  // expected-error @+1 {{has a GELU's input in rows of no multiple of 8 elements}}
  plan.gemm "dot" %a, %b, %c m 4 n 12 k 8 strides [8, 1] x [12, 1] to [12, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu aux(%h : memref<4x12xf32>) : memref<4x8xf32>, memref<8x12xf32>, memref<4x12xf32>
}

// -----

plan.program @gradient_of_nothing {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %c = plan.result 0 : memref<4x8xf32>
  // expected-error @+1 {{has the gradient of a ReLU or GELU, but no 'saved'}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu_grad : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
}

// -----

plan.program @saved_for_no_gradient {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %h = plan.argument 2 : memref<4x8xf32>
  %c = plan.result 0 : memref<4x8xf32>
  // expected-error @+1 {{has 'saved', but no gradient of a ReLU or GELU}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu saved(%h : memref<4x8xf32>) : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
}

// -----

plan.program @saved_of_another_type {
  %a = plan.argument 0 : memref<4x8xbf16>
  %b = plan.argument 1 : memref<8x8xbf16>
  %h = plan.argument 2 : memref<4x8xf32>
  %c = plan.result 0 : memref<4x8xbf16>
  // expected-error @+1 {{has a GELU's input in another layout than its result}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu_grad saved(%h : memref<4x8xf32>) : memref<4x8xbf16>, memref<8x8xbf16>, memref<4x8xbf16>
}

// -----

plan.program @mask_of_fp8 {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %h = plan.argument 1 : memref<16x16xui8>
  %c = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{has FP8 operands, which a ReLU's mask does not support}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue relu_grad saved(%h : memref<16x16xui8>) : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

// A row of 8 bits is 16 bytes too.
plan.program @mask_of_bytes {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %h = plan.temp : memref<4x1xui8>
  %c = plan.result 0 : memref<4x8xf32>
  // expected-error @+1 {{has a mask of type 'memref<4x1xui8>', not 64 bytes}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue relu aux(%h : memref<4x1xui8>) : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
}

// -----

plan.program @mask_of_a_batch {
  %a = plan.argument 0 : memref<2x4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %h = plan.argument 2 : memref<4x16xui8>
  %c = plan.result 0 : memref<2x4x8xf32>
  // expected-error @+1 {{has a batch, which a ReLU's mask does not support}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [2] [32, 0, 32] alpha 1.0 epilogue relu_grad saved(%h : memref<4x16xui8>) : memref<2x4x8xf32>, memref<8x8xf32>, memref<2x4x8xf32>
}

// -----

// What a GELU reads is written: the argument is gone.
plan.program @aux_is_written {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %c = plan.result 0 : memref<4x8xf32>
  %h = plan.result 1 aliases 0 : memref<4x8xf32>
  // expected-error @+1 {{reads argument 0, whose memory a result has overwritten}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue gelu aux(%h : memref<4x8xf32>) : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
}

// -----

plan.program @rounds_to_another_type {
  %a = plan.argument 0 : memref<4x8xf32>
  %b = plan.argument 1 : memref<8x8xf32>
  %c = plan.result 0 : memref<4x8xbf16>
  // expected-error @+1 {{has an epilogue, and rounds to 'bf16' a product of 'f32'}}
  plan.gemm "dot" %a, %b, %c m 4 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 epilogue relu : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xbf16>
}

// -----

func.func @windows_of_another_shape(%x: tensor<8x30xf32>) -> tensor<8x10x4xf32> {
  // expected-error @+1 {{needs a result of type 'tensor<8x11x4xf32>'}}
  %w = plan.windows %x dims [1] sizes [4] strides [2] dilations [3] : tensor<8x30xf32> -> tensor<8x10x4xf32>
  return %w : tensor<8x10x4xf32>
}

// -----

func.func @windows_out_of_order(%x: tensor<8x30xf32>) -> tensor<8x30x1x1xf32> {
  // expected-error @+1 {{needs dimensions of the operand in ascending order}}
  %w = plan.windows %x dims [1, 0] sizes [1, 1] strides [1, 1] dilations [1, 1] : tensor<8x30xf32> -> tensor<8x30x1x1xf32>
  return %w : tensor<8x30x1x1xf32>
}

// -----

plan.program @alpha {
  %x = plan.argument 0 : memref<16xf32>
  // expected-error @+1 {{'plan.gemm' op has an alpha that F32 cannot hold: 1.000000e+40}}
  plan.gemm "dot" %x, %x, %x m 4 n 4 k 4 strides [4, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0e+40 : memref<16xf32>, memref<16xf32>, memref<16xf32>
}

// -----

plan.program @inplace_beyond_the_reads {
  %a = plan.argument 0 : memref<4xf32>
  %r = plan.result 0 aliases 0 : memref<4xf32>
  // expected-error @+1 {{has 'inplace' = [0, 1]: expected pairs of the index of one of 1 writes and of one of 1 reads}}
  plan.kernel "negate" reads(%a : memref<4xf32>) writes(%r : memref<4xf32>) attributes {inplace = array<i64: 0, 1>} {
  ^bb0(%x: tensor<4xf32>):
    %n = stablehlo.negate %x : tensor<4xf32>
    plan.yield %n : tensor<4xf32>
  }
}

// -----

plan.program @inplace_beyond_the_writes {
  %a = plan.argument 0 : memref<4xf32>
  %r = plan.result 0 aliases 0 : memref<4xf32>
  // expected-error @+1 {{has 'inplace' = [1, 0]: expected pairs}}
  plan.kernel "negate" reads(%a : memref<4xf32>) writes(%r : memref<4xf32>) attributes {inplace = array<i64: 1, 0>} {
  ^bb0(%x: tensor<4xf32>):
    %n = stablehlo.negate %x : tensor<4xf32>
    plan.yield %n : tensor<4xf32>
  }
}

// -----

plan.program @inplace_of_no_pair {
  %a = plan.argument 0 : memref<4xf32>
  %r = plan.result 0 aliases 0 : memref<4xf32>
  // expected-error @+1 {{has 'inplace' = [0, 0, 0]: expected pairs}}
  plan.kernel "negate" reads(%a : memref<4xf32>) writes(%r : memref<4xf32>) attributes {inplace = array<i64: 0, 0, 0>} {
  ^bb0(%x: tensor<4xf32>):
    %n = stablehlo.negate %x : tensor<4xf32>
    plan.yield %n : tensor<4xf32>
  }
}

// -----

plan.program @complex_buffer {
  // expected-error @+1 {{'plan.argument' op result #0 must be a memref of static shape, identity layout, and integers or floats of less than 2^63 bytes, but got 'memref<4xcomplex<f32>>'}}
  %a = plan.argument 0 : memref<4xcomplex<f32>>
}

// -----

plan.program @dynamic_buffer {
  // expected-error @+1 {{must be a memref of static shape}}
  %a = plan.temp : memref<?xf32>
}

// -----

plan.program @huge_buffer {
  // expected-error @+1 {{must be a memref of static shape}}
  %a = plan.temp : memref<4294967296x4294967296xf32>
}
