// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// Behind a gate of 1e-4 a branch grows by the updates of its last weight, 2^-7 an
// element and in agreement with its inputs: 2^2 beside the 2^0 of the start. A
// branch without a gate, or with one of the usual size, does not.
// CHECK-LABEL: func.func @gates
func.func @gates(%h: tensor<8x4096xf32> {scalify.scale = 0 : i32},
                 %a: tensor<4096x64xf32> {scalify.scale = -6 : i32, scalify.role = #scalify.role<param>},
                 %b: tensor<4096x64xf32> {scalify.scale = -6 : i32, scalify.role = #scalify.role<param>},
                 %bias: tensor<64xf32> {scalify.scale = -6 : i32, scalify.role = #scalify.role<param>},
                 %small: tensor<64xf32> {scalify.scale = -13 : i32, scalify.moments = array<f64: 1.0e-4, 0.0>, scalify.role = #scalify.role<param>},
                 %usual: tensor<64xf32> {scalify.scale = 0 : i32, scalify.moments = array<f64: 1.0, 0.0>, scalify.role = #scalify.role<param>}) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 4096), with updates behind a gate", scalify.scale = 2 : i32
  %x = stablehlo.dot_general %h, %a, contracting_dims = [1] x [0] : (tensor<8x4096xf32>, tensor<4096x64xf32>) -> tensor<8x64xf32>
  %c = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %s = stablehlo.add %x, %c : tensor<8x64xf32>
  %f = stablehlo.broadcast_in_dim %small, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %y = stablehlo.multiply %f, %s : tensor<8x64xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 4096)", scalify.scale = 0 : i32
  %u = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] : (tensor<8x4096xf32>, tensor<4096x64xf32>) -> tensor<8x64xf32>
  %g = stablehlo.broadcast_in_dim %usual, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %z = stablehlo.multiply %g, %u : tensor<8x64xf32>
  return %y, %z : tensor<8x64xf32>, tensor<8x64xf32>
}
