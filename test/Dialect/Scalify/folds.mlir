// RUN: scalify-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @unpack_pack
// CHECK-SAME: (%[[D:.*]]: tensor<4xf32>, %[[S:.*]]: tensor<f32>)
// CHECK-NEXT: return %[[D]], %[[S]]
func.func @unpack_pack(%d: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %p = scalify.pack %d, %s : !scalify.scaled<tensor<4xf32>>
  %e, %t = scalify.unpack %p : !scalify.scaled<tensor<4xf32>>
  return %e, %t : tensor<4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @chain
// CHECK-SAME: (%[[D:.*]]: tensor<4xf32>, %[[A:.*]]: tensor<f32>, %{{.*}}: tensor<f32>, %[[C:.*]]: tensor<f32>)
// CHECK-NEXT: %[[R:.*]] = scalify.rescale %[[D]] from %[[A]] to %[[C]]
// CHECK-NEXT: return %[[R]], %[[D]]
func.func @chain(%d: tensor<4xf32>, %a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = scalify.rescale %d from %a to %b : tensor<4xf32>
  %1 = scalify.rescale %0 from %b to %c : tensor<4xf32>
  %2 = scalify.rescale %0 from %b to %a : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// Equal constants are one scale, whoever made them.
// CHECK-LABEL: func.func @equal_constants
// CHECK-SAME: (%[[D:.*]]: tensor<4xf32>)
// CHECK: return %[[D]]
func.func @equal_constants(%d: tensor<4xf32>) -> tensor<4xf32> {
  %a = stablehlo.constant dense<4.0> : tensor<f32>
  %b = stablehlo.constant dense<4.0> : tensor<f32>
  %0 = scalify.rescale %d from %a to %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
