// RUN: scalify-opt %s -split-input-file --scalify-adapt-scales | FileCheck %s --check-prefix=BEFORE
// RUN: scalify-opt %s -split-input-file --scalify-adapt-scales --scalify-limit-rescale | FileCheck %s --check-prefix=WIDE
// RUN: scalify-opt %s -split-input-file --scalify-adapt-scales --scalify-narrow-collectives --scalify-limit-rescale | FileCheck %s

// A share of 0.01 of the 32 values of one rank is one of the 64 of both, whose
// counts are added.
// BEFORE-LABEL: func.func @rescale
// BEFORE: stablehlo.constant dense<3.200000e-01> : tensor<1xf32>
// WIDE-LABEL: func.func @rescale
// WIDE: stablehlo.constant dense<6.400000e-01> : tensor<1xf32>
// CHECK-LABEL: func.func @rescale
// CHECK: stablehlo.constant dense<6.400000e-01> : tensor<1xf32>
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(
      %x: tensor<4x8xf32> {scalify.whole_type = tensor<8x8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
      -> tensor<4x8xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
    %1 = scalify.dequantize %0, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}

// -----

// What is gathered each rank casts whole, and both count 32 values together;
// or before the gather its 8 of 16.
// BEFORE-LABEL: func.func @rescale
// BEFORE: stablehlo.constant dense<1.600000e-01> : tensor<1xf32>
// WIDE-LABEL: func.func @main
// WIDE: scalify.quantize %{{.*}} : tensor<16xf32> -> tensor<16xf8E4M3FN>
// WIDE-LABEL: func.func @rescale
// WIDE: stablehlo.constant dense<3.200000e-01> : tensor<1xf32>
// CHECK-LABEL: func.func @main
// CHECK: scalify.quantize %{{.*}} : tensor<8xf32> -> tensor<8xf8E4M3FN>
// CHECK-LABEL: func.func @rescale
// CHECK: stablehlo.constant dense<1.600000e-01> : tensor<1xf32>
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(
      %x: tensor<8xf32> {scalify.whole_type = tensor<16xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> tensor<16xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<8xf32>) -> tensor<16xf32>
    %0 = scalify.quantize %g, %s {cast = "c0: x"} : tensor<16xf32> -> tensor<16xf8E4M3FN>
    %1 = scalify.dequantize %0, %s : tensor<16xf8E4M3FN> -> tensor<16xf32>
    return %1 : tensor<16xf32>
  }
}
