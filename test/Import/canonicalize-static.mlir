// RUN: scalify-opt %s --scalify-canonicalize-stablehlo | FileCheck %s

// CHECK-LABEL: @dynamic_ops
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @dynamic_ops(%x: tensor<2x3xf32>)
    -> (tensor<3x4xi64>, tensor<6xf32>, tensor<5x2x3xf32>, tensor<4x3xf32>, tensor<1x2xf32>, tensor<i32>) {
  %shape = stablehlo.constant dense<[3, 4]> : tensor<2xi64>
  %six = stablehlo.constant dense<[6]> : tensor<1xi64>
  %wide = stablehlo.constant dense<[5, 2, 3]> : tensor<3xi64>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<[0, 0]> : tensor<2xi64>
  %high = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
  %limit = stablehlo.constant dense<[1, 3]> : tensor<2xi64>
  %strides = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK-DAG: stablehlo.iota dim = 1 : tensor<3x4xi64>
  %0 = stablehlo.dynamic_iota %shape, dim = 1 : (tensor<2xi64>) -> tensor<3x4xi64>
  // CHECK-DAG: stablehlo.reshape %[[X]] : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = stablehlo.dynamic_reshape %x, %six : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<6xf32>
  // CHECK-DAG: stablehlo.broadcast_in_dim %[[X]], dims = [1, 2]
  %2 = stablehlo.dynamic_broadcast_in_dim %x, %wide, dims = [1, 2] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<5x2x3xf32>
  // CHECK-DAG: stablehlo.pad %[[X]], %{{.*}}, low = [0, 0], high = [2, 0], interior = [0, 0]
  %3 = stablehlo.dynamic_pad %x, %zero, %none, %high, %none : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4x3xf32>
  // CHECK-DAG: stablehlo.slice %[[X]] [0:1, 0:3:2]
  %4 = stablehlo.real_dynamic_slice %x, %none, %limit, %strides : (tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x2xf32>
  // CHECK-DAG: stablehlo.constant dense<3> : tensor<i32>
  %5 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  return %0, %1, %2, %3, %4, %5 : tensor<3x4xi64>, tensor<6xf32>, tensor<5x2x3xf32>, tensor<4x3xf32>, tensor<1x2xf32>, tensor<i32>
}

// The bounds are data: the op stays, and a later stage names it.
// CHECK-LABEL: @slice_of_data
// CHECK: stablehlo.real_dynamic_slice
func.func @slice_of_data(%x: tensor<4xf32>, %at: tensor<1xi64>, %end: tensor<1xi64>) -> tensor<2xf32> {
  %one = stablehlo.constant dense<1> : tensor<1xi64>
  %0 = stablehlo.real_dynamic_slice %x, %at, %end, %one : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: @map
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[M:.*]] = stablehlo.multiply %[[X]], %[[Y]] : tensor<3xf32>
// CHECK-NEXT: return %[[M]]
func.func @map(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.map"(%x, %y) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.multiply %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: @parts_of_real
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT: return %[[X]], %[[ZERO]]
func.func @parts_of_real(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = stablehlo.real %x : (tensor<3xf32>) -> tensor<3xf32>
  %1 = stablehlo.imag %x : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: @tuples
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<i64>)
// CHECK-NEXT: return %[[Y]]
func.func @tuples(%x: tensor<3xf32>, %y: tensor<i64>) -> tensor<i64> {
  %0 = stablehlo.tuple %y : tuple<tensor<i64>>
  %1 = stablehlo.tuple %x, %0 : tuple<tensor<3xf32>, tuple<tensor<i64>>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<3xf32>, tuple<tensor<i64>>>) -> tuple<tensor<i64>>
  %3 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<i64>>) -> tensor<i64>
  return %3 : tensor<i64>
}

// Numbers that do not fit the types: the ops stay, and a later stage names them.
// CHECK-LABEL: @numbers_that_do_not_fit
// CHECK-DAG: stablehlo.dynamic_pad
// CHECK-DAG: stablehlo.real_dynamic_slice
// CHECK-DAG: stablehlo.dynamic_gather
// CHECK-DAG: stablehlo.dynamic_conv
func.func @numbers_that_do_not_fit(%x: tensor<4x4xf32>, %i: tensor<3x1xi32>, %w: tensor<1x4x4x1xf32>, %k: tensor<2x2x1x1xf32>)
    -> (tensor<4x4xf32>, tensor<7xf32>, tensor<3x4xf32>, tensor<1x3x3x1xf32>) {
  %two = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %seven = stablehlo.constant dense<7> : tensor<1xi64>
  %ones = stablehlo.constant dense<1> : tensor<2xi64>
  %pads = stablehlo.constant dense<9> : tensor<2x2xi64>
  %0 = stablehlo.dynamic_pad %x, %zero, %ones, %ones, %ones : (tensor<4x4xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<4x4xf32>
  %1 = stablehlo.real_dynamic_slice %two, %seven, %seven, %seven : (tensor<2xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<7xf32>
  %2 = "stablehlo.dynamic_gather"(%x, %i, %ones) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4x4xf32>, tensor<3x1xi32>, tensor<2xi64>) -> tensor<3x4xf32>
  %3 = "stablehlo.dynamic_conv"(%w, %k, %pads) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, batch_group_count = 1 : i64, feature_group_count = 1 : i64}> : (tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi64>) -> tensor<1x3x3x1xf32>
  return %0, %1, %2, %3 : tensor<4x4xf32>, tensor<7xf32>, tensor<3x4xf32>, tensor<1x3x3x1xf32>
}
