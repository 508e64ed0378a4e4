// RUN: scalify-opt %s --scalify-narrow-collectives --verify-diagnostics --split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}} -> tensor<8xf32>
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> (tensor<8xf8E4M3FN>, tensor<8xf32>) {
  // expected-remark @+1 {{moves 'f32' that is cast to 'f8E4M3FN': 'stablehlo.negate' reads it wide}}
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %1 = scalify.quantize %0, %scale {cast = "w"} : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %2 = stablehlo.negate %0 : tensor<8xf32>
  return %1, %2 : tensor<8xf8E4M3FN>, tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.reduce_scatter"
func.func @main(%data: tensor<4xf8E5M2>, %scale: tensor<f32> {scalify.whole_type = tensor<2xf32>}) -> tensor<2xf32> {
  %wide = scalify.dequantize %data, %scale : tensor<4xf8E5M2> -> tensor<4xf32>
  // expected-remark @+1 {{sums 'tensor<4xf32>' that was 'f8E5M2': ranks may have different scales for it}}
  %0 = "stablehlo.reduce_scatter"(%wide) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Two casts to one format, one of them stochastic, in either order.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: scalify.quantize
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> (tensor<8xf16>, tensor<8xf16>) {
  // expected-remark @+1 {{moves 'f32' that is cast to 'f16': it is cast in more than one way}}
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %1 = scalify.quantize %0, %scale {cast = "v", rounding = #scalify.rounding<stochastic>, stream = 0 : i64} : tensor<8xf32> -> tensor<8xf16>
  %2 = scalify.quantize %0, %scale {cast = "w"} : tensor<8xf32> -> tensor<8xf16>
  return %1, %2 : tensor<8xf16>, tensor<8xf16>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Columns of what is turned are rows of the shares: no index is a place.
// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}} -> tensor<8xf32>
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> tensor<4x2xf16> {
  // expected-remark @+1 {{moves 'f32' that is cast to 'f16': its cast depends on positions in the whole value}}
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.reshape %0 : (tensor<8xf32>) -> tensor<2x4xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %3 = scalify.quantize %2, %scale {rounding = #scalify.rounding<stochastic>, stream = 0 : i64} : tensor<4x2xf32> -> tensor<4x2xf16>
  return %3 : tensor<4x2xf16>
}
