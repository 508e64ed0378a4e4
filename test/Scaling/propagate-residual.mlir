// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// A prediction of 2^2 (2^-1 times 2^0 over 64 terms) and a target of 2^0 differ
// by sqrt(17) = 2^2 before training, and by next to nothing after it: the
// residual has the target's size. Without a square it is no residual, nor is
// the difference of two predictions.
// CHECK-LABEL: func.func @loss
func.func @loss(%w: tensor<64x16xf32> {scalify.scale = -1 : i32, scalify.role = #scalify.role<param>},
                %x: tensor<8x64xf32> {scalify.scale = 0 : i32, scalify.role = #scalify.role<batch>},
                %target: tensor<8x16xf32> {scalify.scale = 0 : i32, scalify.role = #scalify.role<batch>}) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %q = stablehlo.tanh %p : tensor<8x16xf32>
  // CHECK: stablehlo.subtract {{.*}}scalify.rule = "residual: the size of the data", scalify.scale = 0 : i32
  %d = stablehlo.subtract %p, %target : tensor<8x16xf32>
  %s = stablehlo.multiply %d, %d : tensor<8x16xf32>
  // CHECK: stablehlo.subtract {{.*}}scalify.rule = "sum: variances add", scalify.scale = 2 : i32
  %e = stablehlo.subtract %target, %p : tensor<8x16xf32>
  // CHECK: stablehlo.subtract {{.*}}scalify.rule = "sum: variances add", scalify.scale = 2 : i32
  %f = stablehlo.subtract %p, %q : tensor<8x16xf32>
  %t = stablehlo.multiply %f, %f : tensor<8x16xf32>
  return %s, %e, %t : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
