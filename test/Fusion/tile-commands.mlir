// RUN: scalify-opt %s --scalify-tile-commands -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-tile-commands --scalify-assign-buffers -split-input-file | FileCheck %s --check-prefix=ARENA

// The scores and the weights of an attention are tiles of a thread. The mask,
// which the group reads as a whole, is computed in front of it. The weights take
// the place of the scores.
// CHECK-LABEL: plan.program @attention
// ARENA-LABEL: plan.program @attention attributes {arena_bytes = 16384 : i64, tile_bytes = 65536 : i64}
plan.program @attention {
  %q = plan.argument 0 : memref<16x128x32xf32>
  %k = plan.argument 1 : memref<16x128x32xf32>
  %v = plan.argument 2 : memref<16x128x32xf32>
  %o = plan.result 0 : memref<16x128x32xf32>
  // CHECK: plan.temp tile of 16 : memref<16x128x128xf32>
  // ARENA: plan.temp tile of 16 at 0 : memref<16x128x128xf32>
  %s = plan.temp : memref<16x128x128xf32>
  // CHECK: plan.temp : memref<128x128xi1>
  %m = plan.temp : memref<128x128xi1>
  // CHECK: plan.temp tile of 16 : memref<16x128x128xf32>
  // ARENA: plan.temp tile of 16 at 0 : memref<16x128x128xf32>
  %p = plan.temp : memref<16x128x128xf32>
  // CHECK: plan.kernel "mask"
  // CHECK-NOT: plan.tiles
  // CHECK: plan.gemm "scores" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.gemm "scores" %q, %k, %s m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  plan.kernel "mask" writes(%m : memref<128x128xi1>) {
    %0 = stablehlo.iota dim = 0 : tensor<128x128xi32>
    %1 = stablehlo.iota dim = 1 : tensor<128x128xi32>
    %2 = stablehlo.compare GE, %0, %1, SIGNED : (tensor<128x128xi32>, tensor<128x128xi32>) -> tensor<128x128xi1>
    plan.yield %2 : tensor<128x128xi1>
  }
  // CHECK: plan.kernel "weights" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.kernel "weights" reads(%s, %m : memref<16x128x128xf32>, memref<128x128xi1>) writes(%p : memref<16x128x128xf32>) {
  ^bb0(%x: tensor<16x128x128xf32>, %mask: tensor<128x128xi1>):
    %zero = stablehlo.constant dense<0.0> : tensor<16x128x128xf32>
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %mask, dims = [1, 2] : (tensor<128x128xi1>) -> tensor<16x128x128xi1>
    %1 = stablehlo.select %0, %x, %zero : tensor<16x128x128xi1>, tensor<16x128x128xf32>
    %2 = stablehlo.reduce(%1 init: %init) applies stablehlo.add across dimensions = [2] : (tensor<16x128x128xf32>, tensor<f32>) -> tensor<16x128xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<16x128xf32>) -> tensor<16x128x128xf32>
    %4 = stablehlo.divide %1, %3 : tensor<16x128x128xf32>
    plan.yield %4 : tensor<16x128x128xf32>
  }
  // CHECK: plan.gemm "mix" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.gemm "mix" %p, %v, %o m 128 n 32 k 128 strides [128, 1] x [32, 1] to [32, 1] offsets [0, 0, 0] batch [16] [16384, 4096, 4096] alpha 1.0 : memref<16x128x128xf32>, memref<16x128x32xf32>, memref<16x128x32xf32>
}

// -----

// A kernel that reads other tiles of a result stays behind the group, and
// nothing is left to pass on.
// CHECK-LABEL: plan.program @across
plan.program @across {
  %q = plan.argument 0 : memref<16x128x32xf32>
  %o = plan.result 0 : memref<128x16x128xf32>
  %s = plan.temp : memref<16x128x128xf32>
  // CHECK-NOT: plan.tiles
  plan.gemm "scores" %q, %q, %s m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  plan.kernel "turn" reads(%s : memref<16x128x128xf32>) writes(%o : memref<128x16x128xf32>) {
  ^bb0(%x: tensor<16x128x128xf32>):
    %0 = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<16x128x128xf32>) -> tensor<128x16x128xf32>
    plan.yield %0 : tensor<128x16x128xf32>
  }
}

// -----

// What another command reads stays in the arena, and a command that overwrites
// an operand of the group stays behind it.
// CHECK-LABEL: plan.program @shared
plan.program @shared {
  %q = plan.argument 0 : memref<16x128x32xf32>
  %new = plan.result 0 aliases 0 : memref<16x128x32xf32>
  %o = plan.result 1 : memref<16x128x128xf32>
  %all = plan.result 2 : memref<f32>
  // CHECK: plan.temp : memref<16x128x128xf32>
  %s = plan.temp : memref<16x128x128xf32>
  // CHECK: plan.gemm "scores" {{.*}}plan.tiles = array<i64: 16, 0>
  plan.gemm "scores" %q, %q, %s m 128 n 128 k 32 strides [32, 1] x [1, 32] to [128, 1] offsets [0, 0, 0] batch [16] [4096, 4096, 16384] alpha 1.0 : memref<16x128x32xf32>, memref<16x128x32xf32>, memref<16x128x128xf32>
  // CHECK-NEXT: plan.kernel "negate" {{.*}}plan.tiles = array<i64: 16, 0>
  // CHECK: plan.kernel "update"
  // CHECK-NOT: plan.tiles
  plan.kernel "update" reads(%q : memref<16x128x32xf32>) writes(%new : memref<16x128x32xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<16x128x32xf32>):
    %0 = stablehlo.negate %x : tensor<16x128x32xf32>
    plan.yield %0 : tensor<16x128x32xf32>
  }
  plan.kernel "negate" reads(%s : memref<16x128x128xf32>) writes(%o : memref<16x128x128xf32>) {
  ^bb0(%x: tensor<16x128x128xf32>):
    %0 = stablehlo.negate %x : tensor<16x128x128xf32>
    plan.yield %0 : tensor<16x128x128xf32>
  }
  plan.kernel "sum" reads(%s : memref<16x128x128xf32>) writes(%all : memref<f32>) {
  ^bb0(%x: tensor<16x128x128xf32>):
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %init) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<16x128x128xf32>, tensor<f32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
}
