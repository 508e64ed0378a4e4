// RUN: scalify-opt %s | FileCheck %s

// Constants and ops that move elements.

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK: stablehlo.constant dense<5.000000e-01> : tensor<f32>
  %0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %1 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  // CHECK: stablehlo.constant dense<{{\[\[}}1.000000e+00, 0x7F800000], [0xFF800000, 0x7FC00000]]> : tensor<2x2xf32>
  %2 = stablehlo.constant dense<[[1.000000e+00, 0x7F800000], [0xFF800000, 0x7FC00000]]> : tensor<2x2xf32>
  // CHECK: stablehlo.constant dense<true> : tensor<4xi1>
  %3 = stablehlo.constant dense<true> : tensor<4xi1>
  // CHECK: stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
  %4 = stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
  // CHECK: stablehlo.constant {mhlo.x = 1 : i32} dense<0> : tensor<i32>
  %5 = stablehlo.constant {mhlo.x = 1 : i32} dense<0> : tensor<i32>
  // CHECK: stablehlo.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
  %6 = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<4xf32>
  // CHECK: stablehlo.constant() <{value = dense<1.000000e+00> : tensor<2xf32>}> : () -> tensor<?xf32>
  %7 = stablehlo.constant() <{value = dense<1.000000e+00> : tensor<2xf32>}> : () -> tensor<?xf32>
  // CHECK: stablehlo.constant dense<> : tensor<0x2xf32>
  %8 = stablehlo.constant dense<> : tensor<0x2xf32>
  return
}

// CHECK-LABEL: func.func @iota
func.func @iota() {
  // CHECK: stablehlo.iota dim = 1 : tensor<3x4xi32>
  %0 = stablehlo.iota dim = 1 : tensor<3x4xi32>
  // CHECK: stablehlo.iota dim = 0 : tensor<3xf32>
  %1 = stablehlo.iota dim = 0 : tensor<3xf32>
  return
}

// CHECK-LABEL: func.func @broadcasts
func.func @broadcasts(%s: tensor<f32>, %a: tensor<3x1xf32>) {
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [1, 2] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %1 = stablehlo.broadcast_in_dim %a, dims = [1, 2] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  // CHECK: stablehlo.broadcast_in_dim %{{.*}}, dims = [2, 0] : (tensor<3x1xf32>) -> tensor<5x1x3xf32>
  %2 = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<3x1xf32>) -> tensor<5x1x3xf32>
  // CHECK: stablehlo.broadcast %{{.*}}, sizes = [2] : (tensor<3x1xf32>) -> tensor<2x3x1xf32>
  %3 = stablehlo.broadcast %a, sizes = [2] : (tensor<3x1xf32>) -> tensor<2x3x1xf32>
  return
}

// CHECK-LABEL: func.func @moves
func.func @moves(%a: tensor<4x6xf32>, %s: tensor<f32>) {
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  %0 = stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<2x12xf32>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  // CHECK: stablehlo.slice %{{.*}} [1:3, 0:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:3, 0:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.slice %{{.*}} [] : (tensor<f32>) -> tensor<f32>
  %3 = stablehlo.slice %s [] : (tensor<f32>) -> tensor<f32>
  // CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [1, 0], high = [2, -1], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<10x5xf32>
  %4 = stablehlo.pad %a, %s, low = [1, 0], high = [2, -1], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<10x5xf32>
  // CHECK: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  %5 = stablehlo.concatenate %a, %a, dim = 1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  // CHECK: stablehlo.concatenate %{{.*}}, dim = 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = stablehlo.concatenate %a, dim = 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: stablehlo.reverse %{{.*}}, dims = [0, 1] : tensor<4x6xf32>
  %7 = stablehlo.reverse %a, dims = [0, 1] : tensor<4x6xf32>
  return
}

// CHECK-LABEL: func.func @bits
func.func @bits(%a: tensor<4xf32>, %b: tensor<4x4xui8>) {
  // CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<4xf32>) -> tensor<4xui32>
  %0 = stablehlo.bitcast_convert %a : (tensor<4xf32>) -> tensor<4xui32>
  // CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<4xf32>) -> tensor<4x2xbf16>
  %1 = stablehlo.bitcast_convert %a : (tensor<4xf32>) -> tensor<4x2xbf16>
  // CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<4x4xui8>) -> tensor<4xf32>
  %2 = stablehlo.bitcast_convert %b : (tensor<4x4xui8>) -> tensor<4xf32>
  return
}
