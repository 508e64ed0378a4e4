// RUN: scalify-opt %s --scalify-set-target --scalify-lower-kernels | FileCheck %s

// The amax of a row is taken along with the cast: each element is read once.
// CHECK-LABEL: func.func @k0(
// CHECK: vector.load %arg0
// CHECK-NOT: vector.load %arg0
// CHECK: gpu.all_reduce maximumf
// CHECK-NOT: vector.load %arg0
// CHECK: return
plan.program @step {
  %x = plan.argument 0 : memref<64x4096xbf16>
  %a = plan.result 0 : memref<64x4096xf8E4M3FN>
  %b = plan.result 1 : memref<64xf32>
  plan.kernel "cast" reads(%x : memref<64x4096xbf16>) writes(%a, %b : memref<64x4096xf8E4M3FN>, memref<64xf32>) {
  ^bb0(%v: tensor<64x4096xbf16>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %w = stablehlo.convert %v : (tensor<64x4096xbf16>) -> tensor<64x4096xf32>
    %q = scalify.quantize %w, %one {cast = "c0"} : tensor<64x4096xf32> -> tensor<64x4096xf8E4M3FN>
    %abs = stablehlo.abs %w : tensor<64x4096xf32>
    %m = stablehlo.reduce(%abs init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<64x4096xf32>, tensor<f32>) -> tensor<64xf32>
    plan.yield %q, %m : tensor<64x4096xf8E4M3FN>, tensor<64xf32>
  }
}
