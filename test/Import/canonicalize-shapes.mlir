// RUN: scalify-opt %s --scalify-canonicalize-stablehlo | FileCheck %s --check-prefixes=CHECK,FREE
// RUN: scalify-opt %s --scalify-canonicalize-stablehlo=signed-zeros=true | FileCheck %s --check-prefixes=CHECK,SIGNED

// CHECK-LABEL: @identities
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.transpose %x, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %x [0:2, 0:3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.pad %x, %z, low = [0, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %5 = stablehlo.concatenate %x, dim = 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Of the same type, but not the same elements.
// CHECK-LABEL: @not_identities
// CHECK: stablehlo.transpose
// CHECK: stablehlo.pad {{.*}}low = [1, 0]
// CHECK: stablehlo.broadcast_in_dim
// CHECK: stablehlo.pad {{.*}}interior = [1, 0]
func.func @not_identities(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = stablehlo.pad %x, %z, low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = stablehlo.pad %x, %z, low = [0, 0], high = [-2, 0], interior = [1, 0] : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %0, %1, %2, %3 : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
}

// CHECK-LABEL: @twice
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-DAG: %[[R:.*]] = stablehlo.reshape %[[X]] : (tensor<2x3x4xf32>) -> tensor<24xf32>
// CHECK-DAG: %[[T:.*]] = stablehlo.transpose %[[X]], dims = [2, 1, 0]
// CHECK-DAG: %[[B:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [1, 3, 4] : (tensor<2x3x4xf32>) -> tensor<5x2x6x3x4xf32>
// CHECK: return %[[R]], %[[T]], %[[X]], %[[B]]
func.func @twice(%x: tensor<2x3x4xf32>) -> (tensor<24xf32>, tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<5x2x6x3x4xf32>) {
  %0 = stablehlo.reshape %x : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<6x4xf32>) -> tensor<24xf32>
  %2 = stablehlo.transpose %x, dims = [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %4 = stablehlo.transpose %3, dims = [2, 1, 0] : (tensor<4x3x2xf32>) -> tensor<2x3x4xf32>
  %5 = stablehlo.broadcast_in_dim %x, dims = [1, 2, 3] : (tensor<2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 3, 4] : (tensor<5x2x3x4xf32>) -> tensor<5x2x6x3x4xf32>
  return %1, %3, %4, %6 : tensor<24xf32>, tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<5x2x6x3x4xf32>
}

// The gradient of three slices: [x y z], with nothing before and two after.
// CHECK-LABEL: @join_adjacent
// CHECK-SAME: (%[[X:.*]]: tensor<2x1xf32>, %[[Y:.*]]: tensor<2x2xf32>, %[[Z:.*]]: tensor<2x3xf32>)
// FREE: %[[XY:.*]] = stablehlo.concatenate %[[X]], %[[Y]], dim = 1
// FREE: %[[XYZ:.*]] = stablehlo.concatenate %[[XY]], %[[Z]], dim = 1
// FREE: stablehlo.pad %[[XYZ]], %{{.*}}, low = [0, 0], high = [0, 2], interior = [0, 0]
// SIGNED-COUNT-2: stablehlo.add
func.func @join_adjacent(%x: tensor<2x1xf32>, %y: tensor<2x2xf32>, %z: tensor<2x3xf32>) -> tensor<2x8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.pad %x, %0, low = [0, 0], high = [0, 7], interior = [0, 0] : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x8xf32>
  %2 = stablehlo.pad %y, %0, low = [0, 1], high = [0, 5], interior = [0, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x8xf32>
  %3 = stablehlo.pad %z, %0, low = [0, 3], high = [0, 2], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x8xf32>
  %4 = stablehlo.add %2, %1 : tensor<2x8xf32>
  %5 = stablehlo.add %4, %3 : tensor<2x8xf32>
  return %5 : tensor<2x8xf32>
}

// With -0 for padding the sum keeps the sign of every zero.
// CHECK-LABEL: @join_alternating
// CHECK-SAME: (%[[X:.*]]: tensor<3x2xf32>, %[[Y:.*]]: tensor<3x2xf32>)
// CHECK-DAG: %[[X1:.*]] = stablehlo.reshape %[[X]] : (tensor<3x2xf32>) -> tensor<3x1x2xf32>
// CHECK-DAG: %[[Y1:.*]] = stablehlo.reshape %[[Y]] : (tensor<3x2xf32>) -> tensor<3x1x2xf32>
// CHECK: %[[P:.*]] = stablehlo.concatenate %[[X1]], %[[Y1]], dim = 1 : {{.*}} -> tensor<3x2x2xf32>
// CHECK: stablehlo.reshape %[[P]] : (tensor<3x2x2xf32>) -> tensor<6x2xf32>
func.func @join_alternating(%x: tensor<3x2xf32>, %y: tensor<3x2xf32>) -> tensor<6x2xf32> {
  %0 = stablehlo.constant dense<-0.0> : tensor<f32>
  %1 = stablehlo.pad %y, %0, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<6x2xf32>
  %2 = stablehlo.pad %x, %0, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<6x2xf32>
  %3 = stablehlo.add %1, %2 : tensor<6x2xf32>
  return %3 : tensor<6x2xf32>
}

// Overlapping, apart, padded by one, or read elsewhere: left alone.
// CHECK-LABEL: @keep_sums
// CHECK-COUNT-3: stablehlo.add
// CHECK-NOT: stablehlo.concatenate
func.func @keep_sums(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.constant dense<1.0> : tensor<f32>
  %2 = stablehlo.pad %x, %0, low = [0], high = [2], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.pad %y, %0, low = [1], high = [1], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = stablehlo.add %2, %3 : tensor<4xf32>
  %5 = stablehlo.pad %y, %1, low = [2], high = [0], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = stablehlo.pad %y, %0, low = [0], high = [2], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %7 = stablehlo.add %5, %6 : tensor<4xf32>
  %8 = stablehlo.pad %x, %0, low = [2], high = [0], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %9 = stablehlo.add %8, %2 : tensor<4xf32>
  return %4, %7, %9 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What lies in one part of a concatenation is read of that part; a slice over
// two of them stays.
// CHECK-LABEL: @parts
// CHECK-SAME: (%[[X:.*]]: tensor<1x3xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// CHECK: %[[XY:.*]] = stablehlo.concatenate %[[X]], %[[Y]], dim = 0
// CHECK: %[[SECOND:.*]] = stablehlo.slice %[[Y]] [1:2, 0:3:2]
// CHECK: %[[BOTH:.*]] = stablehlo.slice %[[XY]] [0:2, 0:3]
// CHECK: return %[[X]], %[[Y]], %[[SECOND]], %[[BOTH]]
func.func @parts(%x: tensor<1x3xf32>, %y: tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x2xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  %1 = stablehlo.slice %0 [0:1, 0:3] : (tensor<3x3xf32>) -> tensor<1x3xf32>
  %2 = stablehlo.slice %0 [1:3, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %0 [2:3, 0:3:2] : (tensor<3x3xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.slice %0 [0:2, 0:3] : (tensor<3x3xf32>) -> tensor<2x3xf32>
  return %1, %2, %3, %4 : tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x2xf32>, tensor<2x3xf32>
}

// A broadcast that only adds dimensions of one element moves nothing.
// CHECK-LABEL: @ones
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
// CHECK: %[[REPEATED:.*]] = stablehlo.broadcast_in_dim %[[X]], dims = [1, 2]
// CHECK: %[[FLAT:.*]] = stablehlo.reshape %[[REPEATED]]
// CHECK: return %[[X]], %[[FLAT]]
func.func @ones(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<12xf32>) {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<2x2x3xf32>
  %3 = stablehlo.reshape %2 : (tensor<2x2x3xf32>) -> tensor<12xf32>
  return %1, %3 : tensor<2x3xf32>, tensor<12xf32>
}
