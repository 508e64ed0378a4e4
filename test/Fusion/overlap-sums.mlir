// RUN: scalify-opt %s --scalify-overlap-collectives=sums=true | FileCheck %s
// RUN: scalify-opt %s --scalify-overlap-collectives | FileCheck %s --check-prefix=HOST

// Of a GPU the kernel that sums what ranks gave follows on their stream, and the
// gather of the sums follows that: the product beside them waits for nothing.
// CHECK-LABEL: plan.program @backward
// CHECK: plan.gemm "dw"
// CHECK-NEXT: plan.record 0 on 0
// CHECK-NEXT: plan.wait 0 on 1
// CHECK-NEXT: plan.collective all_to_all none {{.*}} {plan.stream = 1 : i64}
// CHECK-NEXT: plan.kernel "sum" {{.*}} attributes {plan.stream = 1 : i64}
// CHECK: plan.yield
// CHECK-NEXT: }
// CHECK-NEXT: plan.collective all_gather none {{.*}} {plan.stream = 1 : i64}
// CHECK-NEXT: plan.record 1 on 1
// CHECK-NEXT: plan.gemm "dx"
// CHECK-NEXT: plan.wait 1 on 0
// CHECK-NEXT: plan.copy
//
// A CPU has but one thread for collectives, which computes nothing.
// HOST-LABEL: plan.program @backward
// HOST: plan.kernel "sum"
// HOST-NOT: plan.stream
// HOST: plan.yield
plan.program @backward {
  %x = plan.argument 0 : memref<64x64xf32>
  %w = plan.argument 1 : memref<64x64xf32>
  %new = plan.result 0 : memref<64x64xf32>
  %dw = plan.temp : memref<64x64xf32>
  %dx = plan.temp : memref<64x64xf32>
  %got = plan.temp : memref<64x64xf32>
  %own = plan.temp : memref<32x64xf32>
  %all = plan.temp : memref<64x64xf32>
  plan.gemm "dw" %x, %w, %dw m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.collective all_to_all none %dw to %got groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<64x64xf32>, memref<64x64xf32>
  plan.kernel "sum" reads(%got : memref<64x64xf32>) writes(%own : memref<32x64xf32>) {
  ^bb0(%v: tensor<64x64xf32>):
    %parts = stablehlo.reshape %v : (tensor<64x64xf32>) -> tensor<2x32x64xf32>
    %start = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
    %n = stablehlo.reduce(%parts init: %start) applies stablehlo.add across dimensions = [0] {scalify.in_order} : (tensor<2x32x64xf32>, tensor<f32>) -> tensor<32x64xf32>
    plan.yield %n : tensor<32x64xf32>
  }
  plan.collective all_gather none %own to %all groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32x64xf32>, memref<64x64xf32>
  plan.gemm "dx" %x, %w, %dx m 64 n 64 k 64 strides [64, 1] x [64, 1] to [64, 1] offsets [0, 0, 0] batch [] [] alpha 1.000000e+00 : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
  plan.copy %all to %new : memref<64x64xf32>, memref<64x64xf32>
}
