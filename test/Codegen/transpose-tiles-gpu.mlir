// RUN: scalify-opt %s --scalify-set-target --scalify-lower-kernels | FileCheck %s
// RUN: scalify-opt %s --scalify-set-target --scalify-lower-kernels --scalify-kernels-to-nvvm | FileCheck %s --check-prefix=NVVM

// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "turn" {{.*}} attributes {function = @k0, grain = 1 : i64, plan.threads = {{[0-9]+}} : i64, rows = 24 : i64}
// CHECK: plan.kernel "cast" {{.*}} attributes {function = @k1, grain = 1 : i64, plan.threads = {{[0-9]+}} : i64, rows = 64 : i64}
plan.program @step {
  %x = plan.argument 0 : memref<3x128x256xf8E4M3FN>
  %y = plan.argument 1 : memref<512x500xf32>
  %n = plan.argument 2 : memref<4096x8xf32>
  %u = plan.argument 3 : memref<64x64xf32>
  %v = plan.argument 4 : memref<64x64xf32>
  %a = plan.result 0 : memref<3x256x128xf8E4M3FN>
  %b = plan.result 1 : memref<512x500xf8E4M3FN>
  %c = plan.result 2 : memref<500x512xf8E4M3FN>
  %d = plan.result 3 : memref<8x4096xf32>
  %e = plan.result 4 : memref<64x64xf32>
  plan.kernel "turn" reads(%x : memref<3x128x256xf8E4M3FN>) writes(%a : memref<3x256x128xf8E4M3FN>) {
  ^bb0(%q: tensor<3x128x256xf8E4M3FN>):
    %t = stablehlo.transpose %q, dims = [0, 2, 1] : (tensor<3x128x256xf8E4M3FN>) -> tensor<3x256x128xf8E4M3FN>
    plan.yield %t : tensor<3x256x128xf8E4M3FN>
  }
  plan.kernel "cast" reads(%y : memref<512x500xf32>) writes(%b, %c : memref<512x500xf8E4M3FN>, memref<500x512xf8E4M3FN>) {
  ^bb0(%w: tensor<512x500xf32>):
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %q = scalify.quantize %w, %one {cast = "c0"} : tensor<512x500xf32> -> tensor<512x500xf8E4M3FN>
    %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<512x500xf8E4M3FN>) -> tensor<500x512xf8E4M3FN>
    plan.yield %q, %t : tensor<512x500xf8E4M3FN>, tensor<500x512xf8E4M3FN>
  }
  plan.kernel "narrow" reads(%n : memref<4096x8xf32>) writes(%d : memref<8x4096xf32>) {
  ^bb0(%w: tensor<4096x8xf32>):
    %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<4096x8xf32>) -> tensor<8x4096xf32>
    plan.yield %t : tensor<8x4096xf32>
  }
  plan.kernel "inplace" reads(%u, %v : memref<64x64xf32>, memref<64x64xf32>) writes(%u, %e : memref<64x64xf32>, memref<64x64xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%w: tensor<64x64xf32>, %z: tensor<64x64xf32>):
    %m = stablehlo.negate %w : tensor<64x64xf32>
    %t = stablehlo.transpose %z, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = stablehlo.add %w, %t : tensor<64x64xf32>
    plan.yield %m, %s : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// 64 by 64 codes and 16 bytes behind every 16 rows; 16 bytes at a time from
// memory, to the tile, and back to memory. The way out of the tile is by lanes.
// CHECK-LABEL: func.func @k0(
// CHECK-SAME: plan.threads = 256 : i64
// CHECK: %[[TILE:.*]] = memref.alloca() : memref<4160xi8, 3>
// CHECK: vector.load %arg0[{{.*}}] {alignment = 16 : i64} : memref<98304xi8>, vector<16xi8>
// CHECK: vector.store {{.*}}, %[[TILE]][{{.*}}] {alignment = 16 : i64} : memref<4160xi8, 3>, vector<16xi8>
// CHECK: gpu.barrier
// CHECK-COUNT-16: memref.load %[[TILE]]
// CHECK-NOT: memref.load
// CHECK: vector.store {{.*}}, %arg1[{{.*}}] {alignment = 16 : i64} : memref<98304xi8>, vector<16xi8>
// CHECK: gpu.barrier

// One cast an element, which is stored as it is and to the tile. 500 is no
// multiple of 64: what lies behind it is left out. Nor is it one of 8.
// CHECK-LABEL: func.func @k1(
// CHECK: %[[TILE:.*]] = memref.alloca() : memref<4160xi8, 3>
// CHECK: arith.minsi
// CHECK: vector.load %arg0[{{.*}}] {alignment = 16 : i64} : memref<256000xf32>, vector<4xf32>
// CHECK-COUNT-2: nvvm.convert.f32x2.to.f8x2
// CHECK-NOT: nvvm.convert.f32x2.to.f8x2
// CHECK: vector.store {{.*}}, %[[TILE]][{{.*}}] {alignment = 4 : i64} : memref<4160xi8, 3>, vector<4xi8>
// CHECK: vector.store {{.*}}, %arg1[{{.*}}] {alignment = 4 : i64}
// CHECK: gpu.barrier
// CHECK-COUNT-16: memref.load %[[TILE]]
// CHECK: vector.store {{.*}}, %arg2[{{.*}}] {alignment = 16 : i64} : memref<256000xi8>, vector<16xi8>

// Eight columns would leave most of a tile idle.
// CHECK-LABEL: func.func @k2(
// CHECK-NOT: memref.alloca
// CHECK-NOT: gpu.barrier
// CHECK: return

// The first pass would write what the second reads.
// CHECK-LABEL: func.func @k3(
// CHECK-NOT: memref.alloca
// CHECK: return

// NVVM: llvm.mlir.global internal @__wg_k0_0() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<4160 x i8>
// NVVM-LABEL: llvm.func @k0(
// NVVM: llvm.store {{.*}} {alignment = 16 : i64} : vector<16xi8>, !llvm.ptr<3>
// NVVM: nvvm.barrier
// NVVM: llvm.load {{.*}} : !llvm.ptr<3> -> i8
