// RUN: scalify-opt %s -verify-diagnostics -split-input-file

plan.program @scale_of_wide {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %s = plan.argument 1 : memref<f32>
  %c = plan.result 0 : memref<16x16xf32>
  // expected-error @+1 {{scales a result that is not FP8}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 into(%s : memref<f32>) : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf32>
}

// -----

plan.program @wide_operands {
  %a = plan.argument 0 : memref<16x32xbf16>
  %c = plan.result 0 : memref<16x16xf8E4M3FN>
  // expected-error @+1 {{has a result of FP8, and operands that are not}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<16x32xbf16>, memref<16x32xbf16>, memref<16x16xf8E4M3FN>
}

// -----

plan.program @formats {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %c = plan.result 0 : memref<16x16xf8E5M2>
  // expected-error @+1 {{has a result of E5M2, and no operand of E5M2}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf8E5M2>
}

// -----

plan.program @batch {
  %a = plan.argument 0 : memref<2x16x32xf8E4M3FN>
  %c = plan.result 0 : memref<2x16x16xf8E4M3FN>
  // expected-error @+1 {{has a result of FP8, and a batch or more than one scale an operand}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [2] [512, 512, 256] alpha 1.0 : memref<2x16x32xf8E4M3FN>, memref<2x16x32xf8E4M3FN>, memref<2x16x16xf8E4M3FN>
}

// -----

plan.program @number {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %m = plan.temp : memref<2xf32>
  %c = plan.result 0 : memref<16x16xf8E4M3FN>
  // expected-error @+1 {{has a result of FP8, and a scale or amax of type 'memref<2xf32>', not one F32}}
  plan.gemm "dot" %a, %a, %c m 16 n 16 k 32 strides [32, 1] x [1, 32] to [16, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 aux(%m : memref<2xf32>) : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x16xf8E4M3FN>
}

// -----

plan.program @rows {
  %a = plan.argument 0 : memref<16x32xf8E4M3FN>
  %c = plan.result 0 : memref<16x8xf8E4M3FN>
  // expected-error @+1 {{has FP8 operands, and a result whose rows are no multiples of 16 bytes}}
  plan.gemm "dot" %a, %a, %c m 16 n 8 k 32 strides [32, 1] x [1, 32] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<16x32xf8E4M3FN>, memref<16x32xf8E4M3FN>, memref<16x8xf8E4M3FN>
}
