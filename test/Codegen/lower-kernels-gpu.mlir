// RUN: scalify-opt %s --scalify-set-target --scalify-lower-kernels | FileCheck %s
// RUN: not scalify-opt %s --scalify-set-target=chip=tpu --scalify-lower-kernels 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: unknown target 'tpu': expected one of cpu, sm_90a

// A block a row; of what has no rows, as many blocks as have vectors.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "twice" {{.*}} attributes {function = @k0, grain = 1 : i64, plan.threads = {{[0-9]+}} : i64, rows = 4 : i64}
// CHECK: plan.kernel "norm" {{.*}} attributes {function = @k1, grain = 1 : i64, plan.threads = {{[0-9]+}} : i64, rows = 8 : i64}
plan.program @step {
  %x = plan.argument 0 : memref<4096xf32>
  %y = plan.result 0 : memref<4096xf32>
  %m = plan.argument 1 : memref<8x256xf32>
  %n = plan.result 1 : memref<8x256xf16>
  %s = plan.result 2 : memref<8xf32>
  plan.kernel "twice" reads(%x : memref<4096xf32>) writes(%y : memref<4096xf32>) {
  ^bb0(%a: tensor<4096xf32>):
    %t = stablehlo.add %a, %a : tensor<4096xf32>
    plan.yield %t : tensor<4096xf32>
  }
  plan.kernel "norm" reads(%m : memref<8x256xf32>) writes(%n, %s : memref<8x256xf16>, memref<8xf32>) {
  ^bb0(%a: tensor<8x256xf32>):
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x256xf32>, tensor<f32>) -> tensor<8xf32>
    %q = stablehlo.rsqrt %r : tensor<8xf32>
    %b = stablehlo.broadcast_in_dim %q, dims = [0] : (tensor<8xf32>) -> tensor<8x256xf32>
    %p = stablehlo.multiply %a, %b : tensor<8x256xf32>
    %h = stablehlo.convert %p : (tensor<8x256xf32>) -> tensor<8x256xf16>
    plan.yield %h, %q : tensor<8x256xf16>, tensor<8xf32>
  }
}

// Neighbouring threads have neighbouring vectors of 16 bytes, and go on behind
// those of the whole grid.
// CHECK-LABEL: func.func @k0(
// CHECK-SAME: plan.threads = 256 : i64
// CHECK-DAG: %[[T:.*]] = gpu.thread_id  x
// CHECK-DAG: %[[D:.*]] = gpu.block_dim  x
// CHECK-DAG: %[[B:.*]] = gpu.block_id  x
// CHECK-DAG: %[[G:.*]] = gpu.grid_dim  x
// CHECK: %[[BEFORE:.*]] = arith.muli %[[B]], %[[D]]
// CHECK: %[[PLACE:.*]] = arith.addi %[[BEFORE]], %[[T]]
// CHECK: %[[ALL:.*]] = arith.muli %[[G]], %[[D]]
// CHECK: %[[FIRST:.*]] = arith.muli %[[PLACE]], %c4
// CHECK: %[[STEP:.*]] = arith.muli %[[ALL]], %c4
// CHECK: scf.for %[[I:.*]] = {{.*}} step %[[STEP]]
// CHECK: vector.load %{{.*}}[%[[I]]] {alignment = 16 : i64} : memref<4096xf32>, vector<4xf32>

// The threads of a block share a row's sum; one stores what is one of a row.
// CHECK-LABEL: func.func @k1(
// CHECK-SAME: plan.threads = 32 : i64
// CHECK: scf.for %[[ROW:.*]] = {{.*}}%[[BLOCK:.*]] to
// CHECK: scf.for
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : memref<2048xf32>, vector<8xf32>
// CHECK: vector.reduction <add>
// CHECK: gpu.barrier
// CHECK: gpu.all_reduce  add %{{.*}} uniform
// CHECK: math.rsqrt
// CHECK: %[[IS_FIRST:.*]] = arith.cmpi eq, %{{.*}}, %c0
// CHECK: scf.if %[[IS_FIRST]]
// CHECK-NEXT: memref.store
// CHECK: scf.for
// CHECK: vector.store {{.*}} {alignment = 16 : i64} : memref<2048xf16>, vector<8xf16>
