// RUN: scalify-opt %s --scalify-set-target --scalify-lower-kernels --scalify-kernels-to-nvvm --scalify-emit-ptx | sed 's/\\0A/\n/g' | FileCheck %s

// Narrow floats by the hardware's conversions, a pair at a time.
plan.program @step {
  %x = plan.argument 0 : memref<64x4096xf32>
  %y = plan.argument 1 : memref<64x4096xbf16>
  %h = plan.argument 2 : memref<64x4096xf16>
  %a = plan.result 0 : memref<64x4096xf8E4M3FN>
  %b = plan.result 1 : memref<64x4096xf8E5M2>
  %c = plan.result 2 : memref<64x4096xbf16>
  %d = plan.result 3 : memref<64x4096xbf16>
  %e = plan.result 4 : memref<64x4096xf16>
  %f = plan.result 5 : memref<7xf8E4M3FN>

  // Eight codes are four instructions and nothing of the integer form (shifts
  // and limits of the bits); what a cast counts are ranges of the value. A sum
  // with zero times the value makes NaN of infinities, which would saturate.
  // CHECK-LABEL: .entry k0(
  // CHECK: ld.global.v4.b32
  // CHECK-NOT: min.s32
  // CHECK-NOT: {{sh[lr]}}.b32
  // CHECK: fma.rn.f32 {{.*}}, %[[S:r[0-9]+]], 0f00000000, %[[S]];
  // CHECK-COUNT-4: cvt.rn.satfinite.e4m3x2.f32
  // CHECK-NOT: popc
  // CHECK: st.global.v4.b16
  plan.kernel "e4m3" reads(%x : memref<64x4096xf32>) writes(%a : memref<64x4096xf8E4M3FN>) {
  ^bb0(%v: tensor<64x4096xf32>):
    %s = stablehlo.constant dense<0.001953125> : tensor<f32>
    %q = scalify.quantize %v, %s {cast = "c0"} : tensor<64x4096xf32> -> tensor<64x4096xf8E4M3FN>
    plan.yield %q : tensor<64x4096xf8E4M3FN>
  }

  // What does not saturate overflows to the infinity 0x7C, in four bytes at once.
  // CHECK-LABEL: .entry k1(
  // CHECK: cvt.rn.satfinite.e5m2x2.f32
  // CHECK: or.b32 {{.*}}, 2088533116
  plan.kernel "e5m2" reads(%x : memref<64x4096xf32>) writes(%b : memref<64x4096xf8E5M2>) {
  ^bb0(%v: tensor<64x4096xf32>):
    %q = stablehlo.convert %v : (tensor<64x4096xf32>) -> tensor<64x4096xf8E5M2>
    plan.yield %q : tensor<64x4096xf8E5M2>
  }

  // Back by way of F16, and on to BF16.
  // CHECK-LABEL: .entry k2(
  // CHECK-COUNT-4: cvt.rn.f16x2.e4m3x2
  // CHECK-COUNT-8: cvt.f32.f16
  // CHECK-COUNT-4: cvt.rn.bf16x2.f32
  // CHECK: st.global.v4.b32
  plan.kernel "back" reads(%a : memref<64x4096xf8E4M3FN>) writes(%c : memref<64x4096xbf16>) {
  ^bb0(%v: tensor<64x4096xf8E4M3FN>):
    %s = stablehlo.constant dense<0.001953125> : tensor<f32>
    %q = scalify.dequantize %v, %s : tensor<64x4096xf8E4M3FN> -> tensor<64x4096xbf16>
    plan.yield %q : tensor<64x4096xbf16>
  }

  // Every op rounds: a product and a sum stay two, though LLVM would make one
  // fma.rn.bf16x2 of them.
  // CHECK-LABEL: .entry k3(
  // CHECK-NOT: fma
  // CHECK-COUNT-4: cvt.rn.bf16x2.f32
  // CHECK-NOT: fma
  // CHECK-COUNT-4: cvt.rn.bf16x2.f32
  plan.kernel "sum" reads(%y : memref<64x4096xbf16>) writes(%d : memref<64x4096xbf16>) {
  ^bb0(%v: tensor<64x4096xbf16>):
    %p = stablehlo.multiply %v, %v : tensor<64x4096xbf16>
    %r = stablehlo.add %p, %v : tensor<64x4096xbf16>
    plan.yield %r : tensor<64x4096xbf16>
  }

  // CHECK-LABEL: .entry k4(
  // CHECK-NOT: fma
  // CHECK-COUNT-4: cvt.rn.f16x2.f32
  // CHECK-NOT: fma
  // CHECK-COUNT-4: cvt.rn.f16x2.f32
  plan.kernel "sum16" reads(%h : memref<64x4096xf16>) writes(%e : memref<64x4096xf16>) {
  ^bb0(%v: tensor<64x4096xf16>):
    %p = stablehlo.multiply %v, %v : tensor<64x4096xf16>
    %r = stablehlo.add %p, %v : tensor<64x4096xf16>
    plan.yield %r : tensor<64x4096xf16>
  }

  // The odd one out has a pair of its own.
  // CHECK-LABEL: .entry k5(
  // CHECK: mov.b32 {{.*}}[[ZERO:%r[0-9]+]], 0f00000000
  // CHECK-NEXT: cvt.rn.satfinite.e4m3x2.f32 {{.*}}, [[ZERO]], %
  plan.kernel "odd" reads(%x : memref<64x4096xf32>) writes(%f : memref<7xf8E4M3FN>) {
  ^bb0(%v: tensor<64x4096xf32>):
    %s = stablehlo.slice %v [0:1, 0:7] : (tensor<64x4096xf32>) -> tensor<1x7xf32>
    %t = stablehlo.reshape %s : (tensor<1x7xf32>) -> tensor<7xf32>
    %q = stablehlo.convert %t : (tensor<7xf32>) -> tensor<7xf8E4M3FN>
    plan.yield %q : tensor<7xf8E4M3FN>
  }
}
