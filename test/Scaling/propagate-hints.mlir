// RUN: scalify-opt %s --scalify-propagate="remarks=0" --scalify-validate-scales -split-input-file | FileCheck %s

// Values stay true, and each operand of a dot has a hint.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4x64xf32>{{.*}}, %[[W:[^:]*]]: tensor<64x8xf32>
func.func @mlp(%x: tensor<4x64xf32> {scalify.scale = 1 : i32},
               %w: tensor<64x8xf32> {scalify.scale = -5 : i32}) -> tensor<4x8xf32> {
  // CHECK: %[[A:.*]] = scalify.scale_hint %[[X]], %[[SX:.*]] : tensor<4x64xf32>
  // CHECK: %[[B:.*]] = scalify.scale_hint %[[W]], %[[SW:.*]] : tensor<64x8xf32>
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.dot_general %[[A]], %[[B]]
  // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[Y]]
  // CHECK-NEXT: %[[Z:.*]] = stablehlo.add %[[T]], %[[Y]]
  // CHECK-NEXT: return %[[Z]]
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %t = stablehlo.tanh %y : tensor<4x8xf32>
  %z = stablehlo.add %t, %y : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// Masks and zeros ride along with any scale, and stay what they were.
// CHECK-LABEL: func.func @mask
func.func @mask(%x: tensor<4xf32> {scalify.scale = -9 : i32}, %m: tensor<4xi1>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[LOW:.*]] = stablehlo.constant {{.*}}dense<-3.40282347E+38>
  // CHECK-NEXT: %[[S:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[LOW]]
  // CHECK-NEXT: return %[[S]]
  %low = stablehlo.constant dense<-3.40282347E+38> : tensor<4xf32>
  %0 = stablehlo.select %m, %x, %low : tensor<4xi1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A zero fits any scale, also behind a barrier, as the cotangent that a
// checkpoint starts from: what is added to it keeps its own.
// CHECK-LABEL: func.func @zero_behind_barrier
// CHECK: %[[SCALE:.*]] = stablehlo.constant dense<8.000000e+00>
// CHECK: %[[B:.*]]:2 = stablehlo.optimization_barrier
// CHECK: %[[SUM:.*]] = stablehlo.add %[[B]]#0, %[[B]]#1
// CHECK: scalify.scale_hint %[[SUM]], %[[SCALE]]
func.func @zero_behind_barrier(%x: tensor<4x8xf32> {scalify.scale = 3 : i32}, %w: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %0:2 = stablehlo.optimization_barrier %zero, %x : tensor<4x8xf32>, tensor<4x8xf32>
  %1 = stablehlo.add %0#0, %0#1 : tensor<4x8xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
