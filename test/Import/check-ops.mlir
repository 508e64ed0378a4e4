// RUN: scalify-opt %s --scalify-import | FileCheck %s

// What computes nothing that a step uses goes; folds see no scalar.

// CHECK-LABEL: @main
// CHECK-NOT: arith
// CHECK: stablehlo.negate
// CHECK-NOT: tensor.dim
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 0 : index
  %d = tensor.dim %x, %c : tensor<4xf32>
  %e = arith.addi %d, %d : index
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
