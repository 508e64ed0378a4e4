// RUN: scalify-opt %s --scalify-adapt-scales --scalify-narrow-collectives --scalify-limit-rescale | FileCheck %s
// RUN: scalify-opt %s --scalify-adapt-scales --scalify-narrow-collectives | FileCheck %s --check-prefix=OLD

// What is gathered is cast before, by each of two ranks its 8 of 16 elements:
// together they count 16, where they counted 32. A share of 0.01 follows.
module {
  sdy.mesh @mesh = <["x"=2]>
  // CHECK-LABEL: func.func @main
  // CHECK: scalify.quantize %{{.*}} : tensor<8xf32> -> tensor<8xf8E4M3FN>
  // CHECK-LABEL: func.func @rescale
  // CHECK: stablehlo.constant dense<1.600000e-01> : tensor<1xf32>
  // OLD-LABEL: func.func @rescale
  // OLD: stablehlo.constant dense<3.200000e-01> : tensor<1xf32>
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
