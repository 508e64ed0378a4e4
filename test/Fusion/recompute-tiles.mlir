// RUN: scalify-opt %s --scalify-tile-commands --scalify-recompute-tiles --scalify-assign-buffers -split-input-file | FileCheck %s

// The backward computes the weights again. The cast counts in the forward
// alone, and the arena holds nothing.
// CHECK-LABEL: plan.program @attention attributes {arena_bytes = 0 : i64, tile_bytes = 98304 : i64}
plan.program @attention {
  %q = plan.argument 0 : memref<16x128x32xf32>
  %k = plan.argument 1 : memref<16x128x32xf32>
  %one = plan.argument 2 : memref<f32>
  %v = plan.argument 3 : memref<16x128x32xbf16>
  %o = plan.result 0 : memref<16x128x32xf32>
  %step = plan.result 1 : memref<f32>
  // CHECK-COUNT-4: plan.temp tile of 16
  %s = plan.temp : memref<16x128x128xf32>
  %p = plan.temp : memref<16x128x128xbf16>
  // CHECK: plan.gemm "scores" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.gemm "scores" %q, %k, %s m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 {plan.phase = "forward"} : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  // CHECK: plan.kernel "cast" {{.*}}plan.casts
  // CHECK: scalify.quantize
  // CHECK-NOT: plan.uncounted
  plan.kernel "cast" reads(%s, %one : memref<16x128x128xf32>, memref<f32>) writes(%p : memref<16x128x128xbf16>) attributes {plan.casts = [{cast = "c0", elements = 262144 : i64, format = bf16, loc = "x"}], plan.phase = "forward"} {
  ^bb0(%x: tensor<16x128x128xf32>, %scale: tensor<f32>):
    %0 = scalify.quantize %x, %scale : tensor<16x128x128xf32> -> tensor<16x128x128xbf16>
    plan.yield %0 : tensor<16x128x128xbf16>
  }
  // CHECK: plan.gemm "mix" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.gemm "mix" %p, %v, %o m 128 n 32 k 128 strides [128, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [16] [16384, 4096, 4096] alpha 1.0 {plan.phase = "forward"} : memref<16x128x128xbf16>, memref<16x128x32xbf16>, memref<16x128x32xf32>
  // CHECK: plan.copy
  plan.copy %one to %step : memref<f32>, memref<f32>
  // CHECK: plan.gemm "scores" {{.*}}plan.phase = "backward", plan.tiles = array<i64: 16, 1>
  // CHECK: plan.kernel "cast"
  // CHECK-NOT: plan.casts
  // CHECK: scalify.quantize {{.*}}plan.uncounted
  // CHECK: plan.gemm "gradient" {{.*}}plan.tiles = array<i64: 16, 1>
  %g = plan.temp : memref<16x128x128xf32>
  plan.gemm "gradient" %v, %v, %g m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 {plan.phase = "backward"} : memref<16x128x32xbf16>, memref<16x128x32xbf16>, memref<16x128x128xf32>
  // CHECK: plan.kernel "product" {{.*}}plan.tiles = array<i64: 16, 1>
  %n = plan.result 2 : memref<16x128xf32>
  plan.kernel "product" reads(%p, %g : memref<16x128x128xbf16>, memref<16x128x128xf32>) writes(%n : memref<16x128xf32>) attributes {plan.phase = "backward"} {
  ^bb0(%x: tensor<16x128x128xbf16>, %y: tensor<16x128x128xf32>):
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.convert %x : (tensor<16x128x128xbf16>) -> tensor<16x128x128xf32>
    %1 = stablehlo.multiply %0, %y : tensor<16x128x128xf32>
    %2 = stablehlo.reduce(%1 init: %init) applies stablehlo.add across dimensions = [2] : (tensor<16x128x128xf32>, tensor<f32>) -> tensor<16x128xf32>
    plan.yield %2 : tensor<16x128xf32>
  }
}

// -----

// The forward's operand is overwritten before the backward: the weights are
// saved.
// CHECK-LABEL: plan.program @overwritten attributes {arena_bytes = 1048576 : i64, tile_bytes = 65536 : i64}
plan.program @overwritten {
  %q = plan.argument 0 : memref<16x128x32xf32>
  %v = plan.argument 1 : memref<16x128x32xf32>
  %new = plan.result 0 aliases 0 : memref<16x128x32xf32>
  %o = plan.result 1 : memref<16x128x32xf32>
  %n = plan.result 2 : memref<16x128xf32>
  %p = plan.temp : memref<16x128x128xf32>
  // CHECK: plan.gemm "scores"
  // CHECK-NOT: plan.gemm "scores"
  plan.gemm "scores" %q, %v, %p m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  plan.gemm "mix" %p, %v, %o m 128 n 32 k 128 strides [128, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [16] [16384, 4096, 4096] alpha 1.0 : memref<16x128x128xf32>, memref<16x128x32xf32>, memref<16x128x32xf32>
  plan.copy %v to %new : memref<16x128x32xf32>, memref<16x128x32xf32>
  %g = plan.temp : memref<16x128x128xf32>
  plan.gemm "gradient" %v, %v, %g m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  // CHECK: plan.kernel "product" {{.*}}plan.tiles = array<i64: 16, 1>
  plan.kernel "product" reads(%p, %g : memref<16x128x128xf32>, memref<16x128x128xf32>) writes(%n : memref<16x128xf32>) {
  ^bb0(%x: tensor<16x128x128xf32>, %y: tensor<16x128x128xf32>):
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.multiply %x, %y : tensor<16x128x128xf32>
    %1 = stablehlo.reduce(%0 init: %init) applies stablehlo.add across dimensions = [2] : (tensor<16x128x128xf32>, tensor<f32>) -> tensor<16x128xf32>
    plan.yield %1 : tensor<16x128xf32>
  }
}
