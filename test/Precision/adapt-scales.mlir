// RUN: scalify-opt %s --scalify-adapt-scales | FileCheck %s

// Each cast with a constant scale reads its entry, and so does every dequantize
// behind it, also through moves. A measured scale stays, and so does that of
// what main returns, which the next step reads.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[S:[^:]*]]: tensor<4xf32> {scalify.casts = ["c0: x", "c1: w", "c2: w", "c3: w"], scalify.initial = array<i32: -1, 0, -1, -1>, scalify.name = "scalify.scales", scalify.role = #scalify.role<input>}
// CHECK-DAG: %[[E0:.*]] = stablehlo.slice %[[S]] [0:1]
// CHECK-DAG: %[[R0:.*]] = stablehlo.reshape %[[E0]] : (tensor<1xf32>) -> tensor<f32>
// CHECK-DAG: %[[E2:.*]] = stablehlo.slice %[[S]] [2:3]
// CHECK-DAG: %[[R2:.*]] = stablehlo.reshape %[[E2]] : (tensor<1xf32>) -> tensor<f32>
// CHECK: %[[QX:.*]] = scalify.quantize %arg0, %[[R0]]
// CHECK: scalify.dequantize %[[QX]], %[[R0]]
// CHECK: %[[T:.*]] = stablehlo.transpose %[[QX]]
// CHECK: scalify.dequantize %[[T]], %[[R0]]
// CHECK: scalify.quantize %arg1, %arg2
// CHECK: %[[Q2:.*]] = scalify.quantize %arg1, %[[R2]]
// CHECK: scalify.dequantize %[[Q2]], %[[R2]]
// CHECK: scalify.quantize %arg1, %cst

// Scales and counters in, scales out. Of 32 values 2^-12 are none; what does
// not read its entry can never move.
// CHECK-LABEL: func.func @rescale
// CHECK-SAME: (%[[IN:[^:]*]]: tensor<4xf32> {{.*}}tf.aliasing_output = 0 : i32}, %[[N:[^:]*]]: tensor<4x6xui64>
// CHECK-SAME: -> (tensor<4xf32>
// CHECK: stablehlo.convert %[[N]]
// CHECK: stablehlo.constant dense<[7.812500e-03, 0x7F800000, 7.812500e-03, 0x7F800000]>
// CHECK: stablehlo.clamp
func.func @main(%x: tensor<4x8xf32>, %w: tensor<4x8xf32>, %m: tensor<f32>)
    -> (tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf16>) {
  %s = stablehlo.constant dense<0.5> : tensor<f32>
  %q = scalify.quantize %x, %s {cast = "c0: x"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %a = scalify.dequantize %q, %s : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %t = stablehlo.transpose %q, dims = [1, 0] : (tensor<4x8xf8E4M3FN>) -> tensor<8x4xf8E4M3FN>
  %b = scalify.dequantize %t, %s : tensor<8x4xf8E4M3FN> -> tensor<8x4xf32>
  %c = scalify.quantize %w, %m {cast = "c1: w"} : tensor<4x8xf32> -> tensor<4x8xf8E4M3FN>
  %d = scalify.quantize %w, %s {cast = "c2: w"} : tensor<4x8xf32> -> tensor<4x8xf8E5M2>
  %e = scalify.dequantize %c, %m : tensor<4x8xf8E4M3FN> -> tensor<4x8xf32>
  %f = scalify.dequantize %d, %s : tensor<4x8xf8E5M2> -> tensor<4x8xf32>
  %g = scalify.quantize %w, %s {cast = "c3: w"} : tensor<4x8xf32> -> tensor<4x8xf16>
  return %a, %b, %e, %f, %g : tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf16>
}
