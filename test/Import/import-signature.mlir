// RUN: scalify-opt %s --scalify-import-signature | FileCheck %s

// CHECK: func.func public @main(
// CHECK-SAME: %[[Z:.*]]: tensor<3x2xf32> {scalify.element = complex<f32>, tf.aliasing_output = 0 : i32}
// CHECK-SAME: %[[N:.*]]: tensor<5xi8> {scalify.element = i4}
// CHECK-SAME: %[[U:.*]]: tensor<ui8> {scalify.element = ui2}, %[[P:.*]]: tensor<4xi1>)
// CHECK-SAME: -> (tensor<3x2xf32> {scalify.element = complex<f32>}, tensor<5xi8> {scalify.element = i4}, tensor<ui8> {scalify.element = ui2}, tensor<4xi1>)
func.func public @main(%z: tensor<3xcomplex<f32>> {tf.aliasing_output = 0 : i32}, %n: tensor<5xi4>,
                       %u: tensor<ui2>, %p: tensor<4xi1>)
    -> (tensor<3xcomplex<f32>>, tensor<5xi4>, tensor<ui2>, tensor<4xi1>) {
  // CHECK-DAG: %[[RE:.*]] = stablehlo.slice %[[Z]] [0:3, 0:1]
  // CHECK-DAG: %[[IM:.*]] = stablehlo.slice %[[Z]] [0:3, 1:2]
  // CHECK-DAG: %[[NARROW:.*]] = stablehlo.convert %[[N]] : (tensor<5xi8>) -> tensor<5xi4>
  // CHECK: stablehlo.multiply %{{.*}} : tensor<3xcomplex<f32>>
  %0 = stablehlo.multiply %z, %z : tensor<3xcomplex<f32>>
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[NARROW]], %[[NARROW]] : tensor<5xi4>
  %1 = stablehlo.add %n, %n : tensor<5xi4>
  // CHECK: %[[PAIRS:.*]] = stablehlo.concatenate {{.*}} dim = 1 : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %[[SUM]] : (tensor<5xi4>) -> tensor<5xi8>
  // CHECK: return %[[PAIRS]], %[[WIDE]], %{{.*}}, %[[P]]
  return %0, %1, %u, %p : tensor<3xcomplex<f32>>, tensor<5xi4>, tensor<ui2>, tensor<4xi1>
}
