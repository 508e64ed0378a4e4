// RUN: scalify-opt %s --scalify-set-target --scalify-assign-streams -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-set-target --scalify-assign-streams=streams=1 -split-input-file | FileCheck %s --check-prefix=ONE

// Two products of 16 tiles leave most of 132 multiprocessors idle: the gradient
// of the weight, which the update needs at the end, runs beside the others.
// ONE-NOT: plan.stream
// CHECK-LABEL: plan.program @step
plan.program @step {
  %x = plan.argument 0 : memref<512x4096xbf16>
  %g = plan.argument 1 : memref<512x4096xbf16>
  %w = plan.argument 2 : memref<512x4096xbf16>
  %new = plan.result 0 : memref<512x512xf32>
  %dx = plan.result 1 : memref<512x512xf32>
  %dy = plan.temp : memref<512x4096xbf16>
  %dw = plan.temp : memref<512x512xf32>
  %d1 = plan.temp : memref<512x512xf32>
  // CHECK: plan.copy
  // CHECK-NEXT: plan.record 0 on 0
  plan.copy %g to %dy : memref<512x4096xbf16>, memref<512x4096xbf16>
  // CHECK-NEXT: plan.wait 0 on 1
  // CHECK-NEXT: plan.gemm "dw" {{.*}} {plan.stream = 1 : i64}
  // CHECK-NEXT: plan.record 1 on 1
  plan.gemm "dw" %dy, %x, %dw m 512 n 512 k 4096 strides [4096, 1] x [1, 4096] to [512, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<512x4096xbf16>, memref<512x4096xbf16>, memref<512x512xf32>
  // CHECK-NEXT: plan.gemm "dx"
  plan.gemm "dx" %dy, %w, %d1 m 512 n 512 k 4096 strides [4096, 1] x [1, 4096] to [512, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<512x4096xbf16>, memref<512x4096xbf16>, memref<512x512xf32>
  // By now the other stream should be done: what it reads is free from here on.
  // CHECK-NEXT: plan.wait 1 on 0
  // CHECK-NEXT: plan.gemm "again"
  plan.gemm "again" %dy, %w, %d1 m 512 n 512 k 4096 strides [4096, 1] x [1, 4096] to [512, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<512x4096xbf16>, memref<512x4096xbf16>, memref<512x512xf32>
  // CHECK-NEXT: plan.kernel "norm"
  plan.kernel "norm" reads(%d1 : memref<512x512xf32>) writes(%dx : memref<512x512xf32>) {
  ^bb0(%v: tensor<512x512xf32>):
    %n = stablehlo.negate %v : tensor<512x512xf32>
    plan.yield %n : tensor<512x512xf32>
  }
  // CHECK: plan.kernel "update"
  plan.kernel "update" reads(%dw, %dx : memref<512x512xf32>, memref<512x512xf32>) writes(%new : memref<512x512xf32>) {
  ^bb0(%v: tensor<512x512xf32>, %u: tensor<512x512xf32>):
    %n = stablehlo.add %v, %u : tensor<512x512xf32>
    plan.yield %n : tensor<512x512xf32>
  }
}

// -----

// 11 x 12 tiles fill it: nothing moves.
// CHECK-LABEL: plan.program @full
// CHECK-NOT: plan.stream
// CHECK-NOT: plan.record
plan.program @full {
  %x = plan.argument 0 : memref<1536x4096xbf16>
  %g = plan.argument 1 : memref<1408x4096xbf16>
  %w = plan.argument 2 : memref<1536x4096xbf16>
  %new = plan.result 0 : memref<1408x1536xf32>
  %dx = plan.result 1 : memref<1408x1536xf32>
  %dy = plan.temp : memref<1408x4096xbf16>
  %dw = plan.temp : memref<1408x1536xf32>
  plan.copy %g to %dy : memref<1408x4096xbf16>, memref<1408x4096xbf16>
  plan.gemm "dw" %dy, %x, %dw m 1408 n 1536 k 4096 strides [4096, 1] x [1, 4096] to [1536, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<1408x4096xbf16>, memref<1536x4096xbf16>, memref<1408x1536xf32>
  plan.gemm "dx" %dy, %w, %dx m 1408 n 1536 k 4096 strides [4096, 1] x [1, 4096] to [1536, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<1408x4096xbf16>, memref<1536x4096xbf16>, memref<1408x1536xf32>
  plan.gemm "again" %dy, %w, %dx m 1408 n 1536 k 4096 strides [4096, 1] x [1, 4096] to [1536, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<1408x4096xbf16>, memref<1536x4096xbf16>, memref<1408x1536xf32>
  plan.kernel "update" reads(%dw, %dx : memref<1408x1536xf32>, memref<1408x1536xf32>) writes(%new : memref<1408x1536xf32>) {
  ^bb0(%v: tensor<1408x1536xf32>, %u: tensor<1408x1536xf32>):
    %n = stablehlo.add %v, %u : tensor<1408x1536xf32>
    plan.yield %n : tensor<1408x1536xf32>
  }
}
