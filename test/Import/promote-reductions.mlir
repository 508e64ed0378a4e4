// RUN: scalify-opt %s --scalify-expand-chlo | FileCheck %s
// RUN: scalify-compile %s -o %t

// A region may compute in wider elements than those that a reduction reads.

// CHECK-LABEL: @main
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[Z:.*]]: tensor<f32>
// CHECK: %[[WX:.*]] = stablehlo.convert %[[X]] : (tensor<4x8xf32>) -> tensor<4x8xf64>
// CHECK: %[[WZ:.*]] = stablehlo.convert %[[Z]] : (tensor<f32>) -> tensor<f64>
// CHECK: stablehlo.reduce(%[[WX]] init: %[[WZ]]) across dimensions = [1] : (tensor<4x8xf64>, tensor<f64>) -> tensor<4xf64>
// CHECK: "stablehlo.reduce_window"(%{{.*}}, %{{.*}})
// CHECK: (tensor<4x8xf64>, tensor<f64>) -> tensor<4x7xf64>
// CHECK: %[[A:.*]] = stablehlo.convert %{{.*}} : (tensor<4xi8>) -> tensor<4xi32>
// CHECK: stablehlo.reduce(%[[A]] init: %{{.*}}) across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>, %a: tensor<4xi8>, %n: tensor<i32>) -> (tensor<4xf64>, tensor<4x7xf64>, tensor<i32>) {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.add %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf64>
  %1 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%l: tensor<f64>, %r: tensor<f64>):
    %s = stablehlo.maximum %l, %r : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x7xf64>
  %2 = "stablehlo.reduce"(%a, %n) <{dimensions = array<i64: 0>}> ({
  ^bb0(%l: tensor<i32>, %r: tensor<i32>):
    %s = stablehlo.add %l, %r : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<4xi8>, tensor<i32>) -> tensor<i32>
  return %0, %1, %2 : tensor<4xf64>, tensor<4x7xf64>, tensor<i32>
}

// CHECK-LABEL: @devices
// CHECK: %[[W:.*]] = stablehlo.convert %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: "stablehlo.all_reduce"(%[[W]])
// CHECK: (tensor<4xf32>) -> tensor<4xf32>
func.func private @devices(%x: tensor<4xbf16>) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xbf16>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: @scatters
// CHECK-SAME: (%[[E:.*]]: tensor<8x4xbf16>, %[[I:.*]]: tensor<3x1xi32>, %[[U:.*]]: tensor<3x4xbf16>)
// CHECK: %[[WE:.*]] = stablehlo.convert %[[E]] : (tensor<8x4xbf16>) -> tensor<8x4xf32>
// CHECK: %[[WU:.*]] = stablehlo.convert %[[U]] : (tensor<3x4xbf16>) -> tensor<3x4xf32>
// CHECK: "stablehlo.scatter"(%[[WE]], %[[I]], %[[WU]])
func.func private @scatters(%e: tensor<8x4xbf16>, %i: tensor<3x1xi32>, %u: tensor<3x4xbf16>) -> tensor<8x4xf32> {
  %0 = "stablehlo.scatter"(%e, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x4xbf16>, tensor<3x1xi32>, tensor<3x4xbf16>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// The selection still compares elements of the operand.

// CHECK-LABEL: @selects
// CHECK: %[[W:.*]] = stablehlo.convert %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: "stablehlo.select_and_scatter"(%[[W]], %{{.*}}, %{{.*}})
// CHECK-NEXT: ^bb0(%[[L:.*]]: tensor<f32>, %[[R:.*]]: tensor<f32>):
// CHECK-DAG: %[[NL:.*]] = stablehlo.convert %[[L]] : (tensor<f32>) -> tensor<bf16>
// CHECK-DAG: %[[NR:.*]] = stablehlo.convert %[[R]] : (tensor<f32>) -> tensor<bf16>
// CHECK: stablehlo.compare GE, %[[NL]], %[[NR]] : (tensor<bf16>, tensor<bf16>)
// CHECK: (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
func.func private @selects(%x: tensor<4xbf16>, %s: tensor<2xbf16>, %z: tensor<bf16>) -> tensor<4xf32> {
  %0 = "stablehlo.select_and_scatter"(%x, %s, %z) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
    %c = stablehlo.compare GE, %l, %r : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %a = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %a : tensor<f32>
  }) : (tensor<4xbf16>, tensor<2xbf16>, tensor<bf16>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// BF16 does not hold F16's elements: validation refuses it.

// CHECK-LABEL: @rounds
// CHECK: "stablehlo.select_and_scatter"(%{{.*}}
// CHECK: (tensor<4xf16>, tensor<4xf16>, tensor<f16>) -> tensor<4xbf16>
func.func private @rounds(%x: tensor<4xf16>, %z: tensor<f16>) -> tensor<4xbf16> {
  %0 = "stablehlo.select_and_scatter"(%x, %x, %z) ({
  ^bb0(%l: tensor<f16>, %r: tensor<f16>):
    %c = stablehlo.compare GE, %l, %r : (tensor<f16>, tensor<f16>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
    stablehlo.return %r : tensor<bf16>
  }) : (tensor<4xf16>, tensor<4xf16>, tensor<f16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
