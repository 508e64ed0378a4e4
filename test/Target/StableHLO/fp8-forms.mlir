// Dots on FP8 data in each form. One set of sizes tells the dimensions apart:
// batch 2, free 3 and 4 on the left, contracting 5 and 6, free 7 on the right.
//
// RUN: scalify-opt %s --scalify-to-stablehlo | FileCheck %s --check-prefix=CHECK-WIDE
// RUN: scalify-opt %s --scalify-to-stablehlo=fp8-form=xla-gpu | FileCheck %s --check-prefix=CHECK-GPU
// RUN: scalify-opt %s --scalify-to-stablehlo=fp8-form=plain | FileCheck %s --check-prefix=CHECK-PLAIN

// CHECK-WIDE-LABEL: @batched
// CHECK-WIDE:         stablehlo.dot_general {{.*}} batching_dims = [2] x [0], contracting_dims = [3, 1] x [3, 2], precision = [HIGH, HIGH] : (tensor<3x6x2x5x4xf32>, tensor<2x7x6x5xf32>) -> tensor<2x3x4x7xf32>

// The left side is transposed with K minor, the right side's K is collapsed in
// the order of the left: 6 before 5, as it lies in memory.
// CHECK-GPU-LABEL: @batched
// CHECK-GPU-SAME:    %[[A:.*]]: tensor<3x6x2x5x4xf8E4M3FN>, %[[B:.*]]: tensor<2x7x6x5xf8E5M2>, %[[S:.*]]: tensor<f32>
// CHECK-GPU:         %[[T:.*]] = stablehlo.transpose %[[A]], dims = [2, 0, 4, 1, 3]
// CHECK-GPU:         %[[AM:.*]] = stablehlo.reshape %[[T]] : (tensor<2x3x4x6x5xf8E4M3FN>) -> tensor<2x12x30xf8E4M3FN>
// CHECK-GPU:         %[[BM:.*]] = stablehlo.reshape %[[B]] : (tensor<2x7x6x5xf8E5M2>) -> tensor<2x7x30xf8E5M2>
// CHECK-GPU:         %[[AW:.*]] = stablehlo.convert %[[AM]] : (tensor<2x12x30xf8E4M3FN>) -> tensor<2x12x30xbf16>
// CHECK-GPU:         %[[SN:.*]] = stablehlo.convert %[[S]] : (tensor<f32>) -> tensor<bf16>
// CHECK-GPU:         %[[SB:.*]] = stablehlo.broadcast_in_dim %[[SN]], dims = []
// CHECK-GPU:         %[[AD:.*]] = stablehlo.multiply %[[AW]], %[[SB]]
// CHECK-GPU:         %[[BW:.*]] = stablehlo.convert %[[BM]]
// CHECK-GPU:         %[[BS:.*]] = stablehlo.broadcast_in_dim %[[SN]], dims = []
// CHECK-GPU:         %[[BD:.*]] = stablehlo.multiply %[[BW]], %[[BS]]
// CHECK-GPU:         %[[R:.*]] = stablehlo.dot_general %[[AD]], %[[BD]], batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x12x30xbf16>, tensor<2x7x30xbf16>) -> tensor<2x12x7xf32>
// CHECK-GPU:         stablehlo.reshape %[[R]] : (tensor<2x12x7xf32>) -> tensor<2x3x4x7xf32>

// CHECK-PLAIN-LABEL: @batched
// CHECK-PLAIN-SAME:    %[[A:.*]]: tensor<3x6x2x5x4xf8E4M3FN>, %[[B:.*]]: tensor<2x7x6x5xf8E5M2>, %[[S:.*]]: tensor<f32>
// CHECK-PLAIN:         %[[R:.*]] = stablehlo.dot_general %[[A]], %[[B]], batching_dims = [2] x [0], contracting_dims = [3, 1] x [3, 2]
// CHECK-PLAIN:         %[[P:.*]] = stablehlo.multiply %[[S]], %[[S]] : tensor<f32>
// CHECK-PLAIN:         %[[PB:.*]] = stablehlo.broadcast_in_dim %[[P]], dims = []
// CHECK-PLAIN:         %[[Y:.*]] = stablehlo.multiply %[[R]], %[[PB]]
// CHECK-PLAIN:         return %[[Y]]
func.func @batched(%a: tensor<3x6x2x5x4xf8E4M3FN>, %b: tensor<2x7x6x5xf8E5M2>, %s: tensor<f32>) -> tensor<2x3x4x7xf32> {
  %x = scalify.dequantize %a, %s : tensor<3x6x2x5x4xf8E4M3FN> -> tensor<3x6x2x5x4xf32>
  %y = scalify.dequantize %b, %s : tensor<2x7x6x5xf8E5M2> -> tensor<2x7x6x5xf32>
  %r = stablehlo.dot_general %x, %y, batching_dims = [2] x [0], contracting_dims = [3, 1] x [3, 2], precision = [HIGH, HIGH] {scalify.phase = #scalify.phase<forward>} : (tensor<3x6x2x5x4xf32>, tensor<2x7x6x5xf32>) -> tensor<2x3x4x7xf32>
  return %r : tensor<2x3x4x7xf32>
}

// A dot of the backward is precise; K major needs no transpose; a cast of the
// result stands before its reshape, where XLA:GPU fuses it.
// CHECK-GPU-LABEL: @cast_of_a_gradient
// CHECK-GPU-NOT:     stablehlo.transpose
// CHECK-GPU:         %[[R:.*]] = stablehlo.dot_general {{.*}}, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x6xbf16>, tensor<8x3xbf16>) -> tensor<6x3xf32>
// CHECK-GPU:         %[[Q:.*]] = stablehlo.multiply %[[R]], %{{.*}} : tensor<6x3xf32>
// CHECK-GPU:         %[[C:.*]] = stablehlo.clamp %{{.*}}, %[[Q]], %{{.*}} : (tensor<f32>, tensor<6x3xf32>, tensor<f32>) -> tensor<6x3xf32>
// CHECK-GPU:         %[[N:.*]] = stablehlo.convert %[[C]] : (tensor<6x3xf32>) -> tensor<6x3xf8E5M2>
// CHECK-GPU:         stablehlo.reshape %[[N]] : (tensor<6x3xf8E5M2>) -> tensor<3x2x3xf8E5M2>
func.func @cast_of_a_gradient(%a: tensor<2x4x3x2xf8E5M2>, %b: tensor<2x4x3xf8E4M3FN>) -> tensor<3x2x3xf8E5M2> {
  %s = stablehlo.constant dense<0.25> : tensor<f32>
  %x = scalify.dequantize %a, %s : tensor<2x4x3x2xf8E5M2> -> tensor<2x4x3x2xf32>
  %y = scalify.dequantize %b, %s : tensor<2x4x3xf8E4M3FN> -> tensor<2x4x3xf32>
  %r = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] {scalify.phase = #scalify.phase<backward>} : (tensor<2x4x3x2xf32>, tensor<2x4x3xf32>) -> tensor<3x2x3xf32>
  %q = scalify.quantize %r, %s : tensor<3x2x3xf32> -> tensor<3x2x3xf8E5M2>
  return %q : tensor<3x2x3xf8E5M2>
}

// A vector has a free dimension of one; a wide side leaves the dot as it is.
// CHECK-GPU-LABEL: @vector_and_wide
// CHECK-GPU:         stablehlo.dot_general {{.*}} : (tensor<1x8xbf16>, tensor<8x3xbf16>) -> tensor<1x3xf32>
// CHECK-GPU:         stablehlo.dot_general {{.*}} : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
// CHECK-PLAIN-LABEL: @vector_and_wide
// CHECK-PLAIN:         stablehlo.dot_general {{.*}} : (tensor<8xf8E4M3FN>, tensor<8x3xf8E4M3FN>) -> tensor<3xf32>
// CHECK-PLAIN:         stablehlo.dot_general {{.*}} : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
func.func @vector_and_wide(%a: tensor<8xf8E4M3FN>, %b: tensor<8x3xf8E4M3FN>, %c: tensor<3xf32>, %d: tensor<3x3xf8E4M3FN>) -> (tensor<3xf32>, tensor<3xf32>) {
  %s = stablehlo.constant dense<0.25> : tensor<f32>
  %x = scalify.dequantize %a, %s : tensor<8xf8E4M3FN> -> tensor<8xf32>
  %y = scalify.dequantize %b, %s : tensor<8x3xf8E4M3FN> -> tensor<8x3xf32>
  %r = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8x3xf32>) -> tensor<3xf32>
  %z = scalify.dequantize %d, %s : tensor<3x3xf8E4M3FN> -> tensor<3x3xf32>
  %t = stablehlo.dot_general %c, %z, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
  return %r, %t : tensor<3xf32>, tensor<3xf32>
}

// What the recipe says of a dot's sum goes before what its phase has, and is
// not written out.
// CHECK-GPU-LABEL: @chosen_sums
// CHECK-GPU-NOT:     scalify.accumulation
// CHECK-GPU:         stablehlo.dot_general {{.*}}precision = [HIGHEST, HIGHEST] : (tensor<8x6xbf16>, tensor<3x6xbf16>) -> tensor<8x3xf32>
// CHECK-GPU:         stablehlo.dot_general {{.*}}precision = [DEFAULT, DEFAULT] : (tensor<8x6xbf16>, tensor<3x6xbf16>) -> tensor<8x3xf32>
func.func @chosen_sums(%a: tensor<8x6xf8E4M3FN>, %b: tensor<3x6xf8E4M3FN>) -> (tensor<8x3xf32>, tensor<8x3xf32>) {
  %s = stablehlo.constant dense<0.25> : tensor<f32>
  %x = scalify.dequantize %a, %s : tensor<8x6xf8E4M3FN> -> tensor<8x6xf32>
  %y = scalify.dequantize %b, %s : tensor<3x6xf8E4M3FN> -> tensor<3x6xf32>
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>, scalify.accumulation = #scalify.accumulation<precise>} : (tensor<8x6xf32>, tensor<3x6xf32>) -> tensor<8x3xf32>
  %q = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>, scalify.accumulation = #scalify.accumulation<fast>} : (tensor<8x6xf32>, tensor<3x6xf32>) -> tensor<8x3xf32>
  return %r, %q : tensor<8x3xf32>, tensor<8x3xf32>
}
