// RUN: scalify-opt %s --scalify-apply-rescales -split-input-file -verify-diagnostics | FileCheck %s
// RUN: not scalify-opt %s --scalify-apply-rescales=strict -split-input-file 2>&1 | FileCheck %s --check-prefix=STRICT

// The first dot contracts along the columns: its operand is divided by the
// scales of the rows (times their inverses), with the predicted scale, and its
// result multiplied. The
// second one contracts along the rows and takes the largest.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = scalify.measured_row_scales l2 %arg0, {{.*}} over [1] : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK: %[[MAX:.*]] = stablehlo.reduce(%[[ROWS]] init: {{.*}}) applies stablehlo.maximum
// CHECK: %[[INVERSE:.*]] = stablehlo.divide %{{.*}}, %[[ROWS]] : tensor<4x1xf32>
// CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[INVERSE]], dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
// CHECK: %[[DATA:.*]] = stablehlo.multiply %arg0, %[[WIDE]]
// CHECK: %[[HINT:.*]] = scalify.scale_hint %[[DATA]], %cst
// CHECK: %[[ONE:.*]] = scalify.scale_hint %arg0, %[[MAX]]
// CHECK: %[[DOT:.*]] = stablehlo.dot_general %[[HINT]],
// CHECK: %[[SPREAD:.*]] = stablehlo.broadcast_in_dim {{.*}}, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>
// CHECK: %[[Y:.*]] = stablehlo.multiply %[[DOT]], %[[SPREAD]]
// CHECK: %[[Z:.*]] = stablehlo.dot_general %[[ONE]],
// CHECK: return %[[Y]], %[[Z]]
// STRICT: error: 'stablehlo.dot_general' op cannot take the scales of rows: dimension 0 of operand 0, along which scales differ, is contracted (rescale the tensor, without axis)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %g: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<8x2xf32>) {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %p = scalify.rescale_point l2 %x {axes = array<i64: 1>} : tensor<4x8xf32>
  %a = scalify.scale_hint %p, %s : tensor<4x8xf32>
  %b = scalify.scale_hint %w, %s : tensor<8x2xf32>
  %c = scalify.scale_hint %g, %s : tensor<4x2xf32>
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  // expected-remark @below {{the largest scale of all rows is taken: dimension 0 of operand 0}}
  %z = stablehlo.dot_general %a, %c, contracting_dims = [0] x [0] : (tensor<4x8xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  return %y, %z : tensor<4x2xf32>, tensor<8x2xf32>
}

// -----

func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @below {{expects axes in increasing order, within the rank of 'tensor<4x8xf32>', got [2]}}
  %p = scalify.rescale_point l2 %x {axes = array<i64: 2>} : tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}
