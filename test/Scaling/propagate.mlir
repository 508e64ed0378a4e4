// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// Operands have the scales that arguments declare, and the result of 64 terms
// grows by sqrt(64) = 2^3.
// CHECK-LABEL: func.func @dot
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4x64xf32>{{.*}}, %[[W:[^:]*]]: tensor<64x8xf32>
func.func @dot(%x: tensor<4x64xf32> {scalify.scale = 1 : i32},
               %w: tensor<64x8xf32> {scalify.scale = -5 : i32}) -> tensor<4x8xf32> {
  // CHECK-DAG: %[[P1:.*]] = stablehlo.constant dense<2.000000e+00>
  // CHECK-DAG: %[[M5:.*]] = stablehlo.constant dense<3.125000e-02>
  // CHECK: %[[A:.*]] = scalify.scale_hint %[[X]], %[[P1]] : tensor<4x64xf32>
  // CHECK: %[[B:.*]] = scalify.scale_hint %[[W]], %[[M5]] : tensor<64x8xf32>
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.dot_general %[[A]], %[[B]]
  // CHECK-SAME: scalify.rule = "dot: sqrt(K = 64)", scalify.scale = -1 : i32
  // CHECK-NEXT: return %[[Y]]
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A sum of squares grows by N, not by sqrt(N): 2^2 * 64.
// CHECK-LABEL: func.func @sum_of_squares
func.func @sum_of_squares(%x: tensor<4x64xf32> {scalify.scale = 1 : i32}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.multiply {{.*}}scalify.scale = 3 : i32
  %s = stablehlo.multiply %x, %x : tensor<4x64xf32>
  // CHECK: stablehlo.reduce{{.*}}scalify.rule = "reduce add over 64", scalify.scale = 8 : i32
  %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// A sum of zero-mean terms grows by sqrt(N).
// CHECK-LABEL: func.func @sum
func.func @sum(%x: tensor<4x64xf32> {scalify.scale = 1 : i32}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.reduce{{.*}}scalify.scale = 4 : i32
  %r = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Softmax is bounded by 1, which goes to 2^8 of E4M3's 448; the mask's -inf
// sets no scale.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<4x64xf32> {scalify.scale = 0 : i32}, %m: tensor<4x64xi1>) -> tensor<4x64xf32> {
  // CHECK-DAG: %[[INF:.*]] = stablehlo.constant {{.*}} dense<0xFF800000> : tensor<4x64xf32>
  %inf = stablehlo.constant dense<0xFF800000> : tensor<4x64xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %[[INF]] {{.*}}scalify.scale = 0 : i32
  %s = stablehlo.select %m, %x, %inf : tensor<4x64xi1>, tensor<4x64xf32>
  %max = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  %maxb = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
  %d = stablehlo.subtract %s, %maxb : tensor<4x64xf32>
  %e = stablehlo.exponential %d : tensor<4x64xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  %sumb = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
  // CHECK: stablehlo.divide {{.*}}scalify.rule = "softmax: bounded by 1", scalify.scale = -8 : i32
  %p = stablehlo.divide %e, %sumb : tensor<4x64xf32>
  return %p : tensor<4x64xf32>
}

// -----

// Adam's first moment has no declared scale and starts at zero: it takes that
// of what is written into it, a tenth of the gradient's 2^-3 in the long run.
// CHECK-LABEL: func.func @state
func.func @state(%m: tensor<8xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
                 %g: tensor<8xf32> {scalify.scale = -3 : i32}) -> tensor<8xf32> {
  %b = stablehlo.constant dense<0.9> : tensor<8xf32>
  %c = stablehlo.constant dense<0.1> : tensor<8xf32>
  %0 = stablehlo.multiply %m, %b : tensor<8xf32>
  %1 = stablehlo.multiply %g, %c : tensor<8xf32>
  // CHECK: stablehlo.add {{.*}}scalify.scale = -6 : i32
  %2 = stablehlo.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Rank-0 statistics and integers carry no scale.
// CHECK-LABEL: func.func @scalars
// CHECK: stablehlo.multiply {{.*}}scalify.scale = 0 : i32
// CHECK-NEXT: stablehlo.add %{{.*}}, %{{.*}} : tensor<4xi32>
func.func @scalars(%lr: tensor<f32>, %i: tensor<4xi32>) -> (tensor<f32>, tensor<4xi32>) {
  %0 = stablehlo.multiply %lr, %lr : tensor<f32>
  %1 = stablehlo.add %i, %i : tensor<4xi32>
  return %0, %1 : tensor<f32>, tensor<4xi32>
}
