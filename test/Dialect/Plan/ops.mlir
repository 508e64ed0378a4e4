// RUN: scalify-opt %s | scalify-opt | FileCheck %s

// CHECK-LABEL: plan.program @step attributes {arena_bytes = 128 : i64}
plan.program @step attributes {arena_bytes = 128 : i64} {
  // CHECK-NEXT: %[[X:.*]] = plan.argument 0 : memref<4x4xf32>
  %x = plan.argument 0 : memref<4x4xf32>
  // CHECK-NEXT: %[[Y:.*]] = plan.result 0 aliases 0 : memref<4x4xf32>
  %y = plan.result 0 aliases 0 : memref<4x4xf32>
  // CHECK-NEXT: %[[T:.*]] = plan.temp at 64 : memref<4x4xf32>
  %t = plan.temp at 64 : memref<4x4xf32>
  // CHECK-NEXT: %[[C:.*]] = plan.constant dense<{{.*}}> : tensor<2xf32> : memref<2xf32>
  %c = plan.constant dense<[1.0, 2.0]> : tensor<2xf32> : memref<2xf32>
  // CHECK-NEXT: plan.fill %[[T]] with 0 : memref<4x4xf32>
  plan.fill %t with 0 : memref<4x4xf32>
  // CHECK-NEXT: plan.gemm "dot" %[[X]], %[[X]], %[[T]] m 4 n 4 k 4 strides [4, 1] x [1, 4] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 5.000000e-01
  plan.gemm "dot" %x, %x, %t m 4 n 4 k 4 strides [4, 1] x [1, 4] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 5.000000e-01 : memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>
  // CHECK-NEXT: plan.kernel "add" reads(%[[X]], %[[T]] : memref<4x4xf32>, memref<4x4xf32>) writes(%[[Y]] : memref<4x4xf32>) attributes {inplace = array<i64: 0, 0>} {
  plan.kernel "add" reads(%x, %t : memref<4x4xf32>, memref<4x4xf32>) writes(%y : memref<4x4xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>):
    %s = stablehlo.add %a, %b : tensor<4x4xf32>
    plan.yield %s : tensor<4x4xf32>
  }
  // CHECK: plan.copy %[[T]] to %[[Y]] : memref<4x4xf32>, memref<4x4xf32>
  plan.copy %t to %y : memref<4x4xf32>, memref<4x4xf32>
}

// CHECK-LABEL: plan.program @parts
plan.program @parts {
  // CHECK-NEXT: %[[W:.*]] = plan.temp at 64 : memref<2x16xf32>
  %w = plan.temp at 64 : memref<2x16xf32>
  // CHECK-NEXT: plan.temp at 128 part of %[[W]] : memref<2x16xf32> from 64 : memref<16xf32>
  %p = plan.temp at 128 part of %w : memref<2x16xf32> from 64 : memref<16xf32>
}

// CHECK-LABEL: plan.program @streams
plan.program @streams {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  %z = plan.result 1 : memref<4xf32>
  // CHECK: plan.record 0 on 0
  plan.copy %x to %y : memref<4xf32>, memref<4xf32>
  plan.record 0 on 0
  // CHECK-NEXT: plan.wait 0 on 1
  plan.wait 0 on 1
  // CHECK-NEXT: plan.copy {{.*}} {plan.stream = 1 : i64}
  plan.copy %y to %z {plan.stream = 1 : i64} : memref<4xf32>, memref<4xf32>
}

// CHECK-LABEL: plan.program @attention
plan.program @attention {
  %q = plan.argument 0 : memref<1x16x2x8xbf16>
  %k = plan.argument 1 : memref<1x16x1x8xbf16>
  %o = plan.result 0 : memref<1x16x2x8xbf16>
  %dk = plan.result 1 : memref<1x16x1x8xbf16>
  %dq = plan.result 2 : memref<1x16x2x8xbf16>
  %dv = plan.result 3 : memref<1x16x1x8xbf16>
  %s = plan.temp : memref<1x2x16xf32>
  // CHECK: plan.attention "attention" reads(%{{.*}} : memref<1x16x2x8xbf16>, memref<1x16x1x8xbf16>, memref<1x16x1x8xbf16>) writes({{.*}}) sizes [1, 2, 1, 16, 16, 8] windows [0, 256, 8, 16, 0, 128, 8, 8, 0, 128, 8, 8, 0, 256, 8, 16] scale 1.250000e-01 causal{{$}}
  plan.attention "attention" reads(%q, %k, %k : memref<1x16x2x8xbf16>, memref<1x16x1x8xbf16>, memref<1x16x1x8xbf16>) writes(%o, %s : memref<1x16x2x8xbf16>, memref<1x2x16xf32>) sizes [1, 2, 1, 16, 16, 8] windows [0, 256, 8, 16, 0, 128, 8, 8, 0, 128, 8, 8, 0, 256, 8, 16] scale 1.250000e-01 causal
  // CHECK: plan.attention "attention_grad" {{.*}} scale 1.250000e-01 gradient{{$}}
  plan.attention "attention_grad" reads(%q, %k, %k, %o, %q, %s : memref<1x16x2x8xbf16>, memref<1x16x1x8xbf16>, memref<1x16x1x8xbf16>, memref<1x16x2x8xbf16>, memref<1x16x2x8xbf16>, memref<1x2x16xf32>) writes(%dq, %dk, %dv : memref<1x16x2x8xbf16>, memref<1x16x1x8xbf16>, memref<1x16x1x8xbf16>) sizes [1, 2, 1, 16, 16, 8] windows [0, 256, 8, 16, 0, 128, 8, 8, 0, 128, 8, 8, 0, 256, 8, 16, 0, 256, 8, 16, 0, 256, 8, 16, 0, 128, 8, 8, 0, 128, 8, 8] scale 1.250000e-01 gradient
}

// CHECK-LABEL: plan.program @collective
plan.program @collective {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<2xf32>
  // CHECK: plan.rank : memref<ui32>
  %rank = plan.rank : memref<ui32>
  // CHECK: plan.collective reduce_scatter sum %{{.*}} to %{{.*}} groups dense<{{\[\[}}1, 0], [2, 3]]> : tensor<2x2xi64> : memref<4xf32>, memref<2xf32>
  plan.collective reduce_scatter sum %x to %y groups dense<[[1, 0], [2, 3]]> : tensor<2x2xi64> : memref<4xf32>, memref<2xf32>
}

// CHECK-LABEL: plan.program @lapack
plan.program @lapack {
  %a = plan.argument 0 : memref<3x4x4xf32>
  %l = plan.result 0 : memref<3x4x4xf32>
  %info = plan.temp : memref<3xi32>
  %w = plan.temp : memref<16xf32>
  // CHECK: plan.lapack "potrf" reads(%{{.*}} : memref<3x4x4xf32>) writes(%{{.*}}, %{{.*}} : memref<3x4x4xf32>, memref<3xi32>) work %{{.*}} : memref<16xf32> sizes [3, 4, 4, 0] letters "L"
  plan.lapack "potrf" reads(%a : memref<3x4x4xf32>) writes(%l, %info : memref<3x4x4xf32>, memref<3xi32>) work %w : memref<16xf32> sizes [3, 4, 4, 0] letters "L"
}

// CHECK-LABEL: func.func @factorize
func.func @factorize(%a: tensor<3x4x4xf64>, %b: tensor<3x4x2xf64>) -> tensor<3x4x2xf64> {
  // CHECK: plan.factorize complex "potrf" %{{.*}}, %{{.*}} sizes [3, 4, 4, 0] letters "L" : (tensor<3x4x4xf64>, tensor<3x4x4xf64>) -> (tensor<3x4x4xf64>, tensor<3x4x4xf64>, tensor<3xi32>)
  %c:3 = plan.factorize complex "potrf" %a, %a sizes [3, 4, 4, 0] letters "L" : (tensor<3x4x4xf64>, tensor<3x4x4xf64>) -> (tensor<3x4x4xf64>, tensor<3x4x4xf64>, tensor<3xi32>)
  // CHECK: plan.factorize "trsm" %{{.*}}, %{{.*}} sizes [3, 4, 2, 0] letters "LUTN" : (tensor<3x4x4xf64>, tensor<3x4x2xf64>) -> tensor<3x4x2xf64>
  %x = plan.factorize "trsm" %a, %b sizes [3, 4, 2, 0] letters "LUTN" : (tensor<3x4x4xf64>, tensor<3x4x2xf64>) -> tensor<3x4x2xf64>
  return %x : tensor<3x4x2xf64>
}
