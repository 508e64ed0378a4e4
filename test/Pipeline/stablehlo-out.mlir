// The whole way from text to text that XLA runs: one cast of each operand, and
// not one op or attribute of ours.
//
// RUN: scalify-compile %s -o - --target=stablehlo --cast-scales=static --recipe='#scalify.recipe<"fp8", head = true>' | FileCheck %s --implicit-check-not=scalify.

// CHECK-LABEL: func.func public @main
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<16x64xf32>
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<64x32xf32>
// CHECK:         stablehlo.clamp
// CHECK:         stablehlo.convert {{.*}} -> tensor<{{.*}}xf8E4M3FN>
// CHECK:         stablehlo.clamp
// CHECK:         stablehlo.convert {{.*}} -> tensor<{{.*}}xf8E4M3FN>
// CHECK:         %[[Y:.*]] = stablehlo.dot_general
// CHECK-NOT:     xf8
// CHECK:         return %[[Y]]
func.func public @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %0 = call @matmul(%x, %w) : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
func.func private @matmul(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}
