// RUN: scalify-opt %s --scalify-overlap-collectives -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-overlap-collectives --scalify-assign-buffers -split-input-file | FileCheck %s --check-prefix=ARENA
// RUN: scalify-opt %s --scalify-overlap-collectives=most-in-flight=1 -split-input-file | FileCheck %s --check-prefix=FEW

// Each gradient's sum is issued behind the product that makes it, and waited for
// by the update alone: of two in a row the last one's event says both. The plan
// had the first one later.
// CHECK-LABEL: plan.program @backward
plan.program @backward {
  %x = plan.argument 0 : memref<64x64xf32>
  %w = plan.argument 1 : memref<64x64xf32>
  %new1 = plan.result 0 : memref<64x64xf32>
  %new2 = plan.result 1 : memref<64x64xf32>
  %dx = plan.temp : memref<64x64xf32>
  %dw1 = plan.temp : memref<64x64xf32>
  %dw2 = plan.temp : memref<64x64xf32>
  %sum1 = plan.temp : memref<64x64xf32>
  %sum2 = plan.temp : memref<64x64xf32>
  // CHECK: plan.gemm "dw1"
  // CHECK-NEXT: plan.record 0 on 0
  // CHECK-NEXT: plan.wait 0 on 1
  // CHECK-NEXT: plan.collective all_reduce sum {{.*}} {plan.stream = 1 : i64}
  // CHECK-NEXT: plan.gemm "dx"
  // CHECK-NEXT: plan.gemm "dw2"
  // CHECK-NEXT: plan.record 1 on 0
  // CHECK-NEXT: plan.wait 1 on 1
  // CHECK-NEXT: plan.collective all_reduce sum {{.*}} {plan.stream = 1 : i64}
  // CHECK-NEXT: plan.record 2 on 1
  // CHECK-NEXT: plan.gemm "more"
  // CHECK-NEXT: plan.wait 2 on 0
  // CHECK-NEXT: plan.kernel "update"
  // CHECK: plan.copy
  // Where memory is short the first sum is waited for once the second is issued.
  // FEW: plan.gemm "dw2"
  // FEW: plan.collective all_reduce sum {{.*}} {plan.stream = 1 : i64}
  // FEW: plan.record
  // FEW: plan.wait {{.*}} on 0
  // FEW: plan.gemm "more"
  // FEW: plan.wait {{.*}} on 0
  // FEW: plan.kernel "update"
  plan.gemm "dw1" %x, %w, %dw1 m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.gemm "dx" %x, %w, %dx m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.gemm "dw2" %dx, %w, %dw2 m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.gemm "more" %x, %w, %dx m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.collective all_reduce sum %dw1 to %sum1 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64x64xf32>, memref<64x64xf32>
  plan.collective all_reduce sum %dw2 to %sum2 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64x64xf32>, memref<64x64xf32>
  plan.kernel "update" reads(%sum2, %dx : memref<64x64xf32>, memref<64x64xf32>) writes(%new2 : memref<64x64xf32>) {
  ^bb0(%v: tensor<64x64xf32>, %u: tensor<64x64xf32>):
    %n = stablehlo.add %v, %u : tensor<64x64xf32>
    plan.yield %n : tensor<64x64xf32>
  }
  plan.copy %sum1 to %new1 : memref<64x64xf32>, memref<64x64xf32>
}

// What is in flight keeps its memory: both gradients, whose sums are in their
// place, and dx.
// ARENA-LABEL: plan.program @backward attributes {arena_bytes = 49152 : i64}

// -----

// What reads the sum follows it: nothing to run beside, no event.
// CHECK-LABEL: plan.program @at_once
// CHECK-NOT: plan.record
// CHECK-NOT: plan.stream
plan.program @at_once {
  %x = plan.argument 0 : memref<64xf32>
  %y = plan.result 0 : memref<64xf32>
  %own = plan.temp : memref<64xf32>
  %sum = plan.temp : memref<64xf32>
  plan.copy %x to %own : memref<64xf32>, memref<64xf32>
  plan.collective all_reduce sum %own to %sum groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64xf32>, memref<64xf32>
  plan.copy %sum to %y : memref<64xf32>, memref<64xf32>
}

// -----

// Gathers of parameters: the first when the step starts, the others one ahead of
// what needs them. The last stage of the sum waits for where it is read, and the
// one collective with nothing beside it is on the first stream, behind the rest.
// CHECK-LABEL: plan.program @forward
plan.program @forward {
  %w1 = plan.argument 0 : memref<32xf32>
  %w2 = plan.argument 1 : memref<32xf32>
  %w3 = plan.argument 2 : memref<32xf32>
  %x = plan.argument 3 : memref<64xf32>
  %y = plan.result 0 : memref<64xf32>
  %g1 = plan.temp : memref<64xf32>
  %g2 = plan.temp : memref<64xf32>
  %g3 = plan.temp : memref<64xf32>
  %a = plan.temp : memref<64xf32>
  %b = plan.temp : memref<64xf32>
  %c = plan.temp : memref<64xf32>
  %part = plan.temp : memref<64xf32>
  %sum = plan.temp : memref<64xf32>
  %scaled = plan.temp : memref<64xf32>
  %moved = plan.temp : memref<64xf32>
  // CHECK: plan.collective all_gather none %0 to {{.*}}plan.stream = 1
  // CHECK-NEXT: plan.record 0 on 1
  // CHECK-NEXT: plan.kernel "free"
  // CHECK: plan.collective all_gather none %1 to {{.*}}plan.stream = 1
  // CHECK-NEXT: plan.record 2 on 1
  // CHECK-NEXT: plan.wait 0 on 0
  // CHECK-NEXT: plan.kernel "first"
  // CHECK: plan.record 1 on 0
  // CHECK-NEXT: plan.wait 1 on 1
  // CHECK-NEXT: plan.collective all_reduce sum {{.*}}plan.stream = 1
  // CHECK-NEXT: plan.collective all_gather none %2 to {{.*}}plan.stream = 1
  // CHECK-NEXT: plan.record 3 on 1
  // CHECK-NEXT: plan.wait 2 on 0
  // CHECK-NEXT: plan.kernel "second"
  // CHECK: plan.wait 3 on 0
  // CHECK-NEXT: plan.collective all_to_all none
  // CHECK-NOT: plan.stream
  // CHECK: plan.kernel "finish"
  // CHECK: plan.kernel "third"
  plan.collective all_gather none %w1 to %g1 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32xf32>, memref<64xf32>
  plan.collective all_gather none %w2 to %g2 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32xf32>, memref<64xf32>
  plan.collective all_gather none %w3 to %g3 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32xf32>, memref<64xf32>
  plan.kernel "free" reads(%x : memref<64xf32>) writes(%a : memref<64xf32>) {
  ^bb0(%v: tensor<64xf32>):
    %n = stablehlo.negate %v : tensor<64xf32>
    plan.yield %n : tensor<64xf32>
  }
  plan.kernel "first" reads(%a, %g1 : memref<64xf32>, memref<64xf32>) writes(%b, %part : memref<64xf32>, memref<64xf32>) {
  ^bb0(%v: tensor<64xf32>, %u: tensor<64xf32>):
    %n = stablehlo.add %v, %u : tensor<64xf32>
    plan.yield %n, %n : tensor<64xf32>, tensor<64xf32>
  }
  plan.collective all_reduce sum %part to %sum groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64xf32>, memref<64xf32>
  plan.kernel "finish" reads(%sum : memref<64xf32>) writes(%scaled : memref<64xf32>) {
  ^bb0(%v: tensor<64xf32>):
    %n = stablehlo.negate %v : tensor<64xf32>
    plan.yield %n : tensor<64xf32>
  }
  plan.kernel "second" reads(%b, %g2 : memref<64xf32>, memref<64xf32>) writes(%c : memref<64xf32>) {
  ^bb0(%v: tensor<64xf32>, %u: tensor<64xf32>):
    %n = stablehlo.add %v, %u : tensor<64xf32>
    plan.yield %n : tensor<64xf32>
  }
  plan.collective all_to_all none %c to %moved groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64xf32>, memref<64xf32>
  plan.kernel "third" reads(%moved, %g3, %scaled : memref<64xf32>, memref<64xf32>, memref<64xf32>) writes(%y : memref<64xf32>) {
  ^bb0(%v: tensor<64xf32>, %u: tensor<64xf32>, %s: tensor<64xf32>):
    %m = stablehlo.add %v, %u : tensor<64xf32>
    %n = stablehlo.add %m, %s : tensor<64xf32>
    plan.yield %n : tensor<64xf32>
  }
}

// -----

// The gather of a gain is sent with that of the matrix behind it: both as soon
// as the matrix before is read, and not the matrix when the gain is.
// CHECK-LABEL: plan.program @gain
plan.program @gain {
  %own1 = plan.argument 0 : memref<32x64xf32>
  %own2 = plan.argument 1 : memref<1xf32>
  %own3 = plan.argument 2 : memref<32x64xf32>
  %x = plan.argument 3 : memref<64x64xf32>
  %z = plan.result 0 : memref<64x64xf32>
  %w1 = plan.temp : memref<64x64xf32>
  %gain = plan.temp : memref<2xf32>
  %w2 = plan.temp : memref<64x64xf32>
  %a = plan.temp : memref<64x64xf32>
  %b = plan.temp : memref<64x64xf32>
  %y = plan.temp : memref<64x64xf32>
  // CHECK: plan.collective all_gather none %0 to
  // CHECK-NOT: plan.collective
  // CHECK: plan.kernel "free"
  // CHECK: plan.collective all_gather none %1 to
  // CHECK-NEXT: plan.record
  // CHECK-NEXT: plan.collective all_gather none %2 to
  // CHECK: plan.gemm "first"
  // CHECK: plan.kernel "norm"
  // CHECK: plan.gemm "second"
  plan.collective all_gather none %own1 to %w1 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32x64xf32>, memref<64x64xf32>
  plan.collective all_gather none %own2 to %gain groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<1xf32>, memref<2xf32>
  plan.collective all_gather none %own3 to %w2 groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32x64xf32>, memref<64x64xf32>
  plan.kernel "free" reads(%x : memref<64x64xf32>) writes(%a : memref<64x64xf32>) {
  ^bb0(%v: tensor<64x64xf32>):
    %n = stablehlo.negate %v : tensor<64x64xf32>
    plan.yield %n : tensor<64x64xf32>
  }
  plan.gemm "first" %a, %w1, %b m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.kernel "norm" reads(%b, %gain : memref<64x64xf32>, memref<2xf32>) writes(%y : memref<64x64xf32>) {
  ^bb0(%v: tensor<64x64xf32>, %g: tensor<2xf32>):
    %one = stablehlo.slice %g [0:1] : (tensor<2xf32>) -> tensor<1xf32>
    %spread = stablehlo.broadcast_in_dim %one, dims = [1] : (tensor<1xf32>) -> tensor<64x64xf32>
    %n = stablehlo.multiply %v, %spread : tensor<64x64xf32>
    plan.yield %n : tensor<64x64xf32>
  }
  plan.gemm "second" %y, %w2, %z m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
}

// -----

// Beside streams of a GPU: their order stays, and collectives are on one more.
// CHECK-LABEL: plan.program @streams
plan.program @streams {
  %x = plan.argument 0 : memref<64xf32>
  %y = plan.result 0 : memref<64xf32>
  %z = plan.result 1 : memref<64xf32>
  %a = plan.temp : memref<64xf32>
  %b = plan.temp : memref<64xf32>
  %sum = plan.temp : memref<64xf32>
  // CHECK: plan.copy
  // CHECK-NEXT: plan.record 0 on 0
  // CHECK-NEXT: plan.wait 0 on 1
  // CHECK-NEXT: plan.copy {{.*}} {plan.stream = 1 : i64}
  // CHECK-NEXT: plan.record 1 on 1
  // CHECK-NEXT: plan.wait 1 on 2
  // CHECK-NEXT: plan.collective all_reduce {{.*}} {plan.stream = 2 : i64}
  // CHECK-NEXT: plan.record 2 on 2
  // CHECK-NEXT: plan.copy %{{.*}} to %[[Y:.*]] :
  // CHECK-NEXT: plan.wait 2 on 0
  // CHECK-NEXT: plan.copy
  plan.copy %x to %a : memref<64xf32>, memref<64xf32>
  plan.record 7 on 0
  plan.wait 7 on 1
  plan.copy %a to %b {plan.stream = 1 : i64} : memref<64xf32>, memref<64xf32>
  plan.record 8 on 1
  plan.copy %x to %y : memref<64xf32>, memref<64xf32>
  plan.wait 8 on 0
  plan.collective all_reduce sum %b to %sum groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64xf32>, memref<64xf32>
  plan.copy %sum to %z : memref<64xf32>, memref<64xf32>
}
