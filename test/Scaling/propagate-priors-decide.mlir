// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s
// RUN: scalify-opt %s --scalify-set-priors="use=none" --scalify-propagate="remarks=0" | FileCheck %s
// RUN: scalify-opt %s --scalify-set-priors="use=sharp-softmax" --scalify-propagate="remarks=0" | FileCheck %s

// A weight that starts at zero has the size that a prior gives it. Its product
// and the hint on it are marked, since their scales depend on priors, whichever
// are in use; the other dot, of declared arguments, is not.

// CHECK-LABEL: func.func @main
// CHECK: scalify.scale_hint %arg0
// CHECK-NOT: by_prior
// CHECK: scalify.scale_hint %arg1, {{.*}} {scalify.by_prior}
// CHECK: stablehlo.dot_general {{.*}}scalify.by_prior
// CHECK-NOT: by_prior
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<4x64xf32> {scalify.scale = 0 : i32}, %w: tensor<64x8xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32}, %v: tensor<64x8xf32> {scalify.scale = -3 : i32}) -> (tensor<64x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %z = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %w, %y, %z : tensor<64x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
}
