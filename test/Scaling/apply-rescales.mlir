// RUN: scalify-opt %s --scalify-scaling="remarks=0 declared-scales=1" -split-input-file | FileCheck %s

// The correction of %x (measured over predicted) passes the transpose, meets
// the unmeasured %y at the larger scale, and multiplies both hints. The
// weight's hint stays constant.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[^:]*]]: tensor<64x4xf32>
// CHECK-DAG: %[[P:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<f32>
// CHECK: %[[M:.*]] = scalify.measured_scale {{ *}}l2 %[[X]], %[[P]] {sample = 2 : i64} : tensor<64x4xf32>
// CHECK-NEXT: %[[C:.*]] = stablehlo.divide %[[M]], %[[P]] : tensor<f32>
// CHECK: %[[U:.*]] = stablehlo.multiply {{.*}}, %[[C]] : tensor<f32>
// CHECK: %[[T:.*]] = stablehlo.transpose %[[X]]
// CHECK: scalify.scale_hint %[[T]], %[[U]] {rule = "{{.*}} (predicted), times what is measured in the step"
// CHECK: scalify.scale_hint %{{.*}}, %cst{{[_0-9]*}} {{.*}}tensor<64x8xf32>
// CHECK: stablehlo.maximum {{.*}} : tensor<f32>
// CHECK-NOT: rescale_point
// CHECK-NOT: stablehlo.{{multiply|divide}} {{.*}}x
func.func @main(%x: tensor<64x4xf32> {scalify.scale = 1 : i32}, %y: tensor<4x64xf32> {scalify.scale = 0 : i32},
                %w: tensor<64x8xf32> {scalify.scale = -5 : i32}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = scalify.rescale_point l2 %x {sample = 2 : i64} : tensor<64x4xf32>
  %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<64x4xf32>) -> tensor<4x64xf32>
  %0 = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %s = stablehlo.add %t, %y : tensor<4x64xf32>
  %1 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Nothing that only the optimizer reads is built, a non-linear op ends a
// correction, and a scale that the user sets is a constant.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scalify.measured_scale
// CHECK-DAG: %[[EIGHT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<f32>
// CHECK: scalify.scale_hint %arg0, %[[EIGHT]] {rule = "set by the user"
func.func @main(%x: tensor<4x64xf32>, %w: tensor<64x8xf32>) -> (tensor<4x8xf32>, tensor<4x64xf32>, tensor<4x8xf32>) {
  %c = stablehlo.constant dense<9.0> : tensor<f32>
  %a = scalify.override_scale %x, %c : tensor<4x64xf32>
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %r = scalify.rescale_point max %x : tensor<4x64xf32>
  %n = stablehlo.negate %r : tensor<4x64xf32>
  %e = stablehlo.tanh %r : tensor<4x64xf32>
  %1 = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %0, %n, %1 : tensor<4x8xf32>, tensor<4x64xf32>, tensor<4x8xf32>
}

// -----

// Data and scale of a value: the scale that the rules gave.
// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = stablehlo.constant dense<1.600000e+01> : tensor<f32>
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[S]]
// CHECK: %[[D:.*]] = stablehlo.divide %arg0, %[[B]]
// CHECK: return %[[D]], %[[S]]
func.func @main(%x: tensor<4x8xf32> {scalify.scale = 4 : i32}) -> (tensor<4x8xf32>, tensor<f32>) {
  %d, %s = scalify.data_scale %x : tensor<4x8xf32>
  return %d, %s : tensor<4x8xf32>, tensor<f32>
}
