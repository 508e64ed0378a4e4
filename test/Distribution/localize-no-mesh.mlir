// RUN: scalify-opt %s --scalify-localize | FileCheck %s

// A program without a mesh, as it is left of one for a mesh of one rank, stays.

// CHECK-LABEL: func @main(%{{.*}}: tensor<8x8xf32>
// CHECK: stablehlo.dot_general
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
