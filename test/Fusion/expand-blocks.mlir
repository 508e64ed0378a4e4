// RUN: scalify-opt %s --scalify-expand-blocks -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-expand-blocks=keep-dequantized -split-input-file | FileCheck %s --check-prefix=KEEP

// A part of a block: scales of three, sliced to the columns that there are.
// CHECK-LABEL: func.func @part
// CHECK-SAME: (%[[X:.*]]: tensor<4x300xf32>, %[[S:.*]]: tensor<4x3xf32>)
// CHECK: %[[ONES:.*]] = stablehlo.constant {scalify.phase = #scalify.phase<forward>} dense<1.000000e+00> : tensor<4x3xf32>
// CHECK: %[[I:.*]] = stablehlo.divide %[[ONES]], %[[S]]
// CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[I]], dims = [0, 1] {{.*}}-> tensor<4x3x128xf32>
// CHECK: %[[R:.*]] = stablehlo.reshape %[[B]] {{.*}}-> tensor<4x384xf32>
// CHECK: %[[F:.*]] = stablehlo.slice %[[R]] [0:4, 0:300]
// CHECK: %[[D:.*]] = stablehlo.multiply %[[X]], %[[F]] {scalify.phase = #scalify.phase<forward>}
// CHECK: %[[ONE:.*]] = stablehlo.constant {{.*}}dense<1.000000e+00> : tensor<f32>
// CHECK: scalify.quantize %[[D]], %[[ONE]] {cast = "c0", scalify.phase = #scalify.phase<forward>, scalify.scaled}
// CHECK-NOT: block
// CHECK: %[[W:.*]] = scalify.dequantize
// CHECK: %[[Y:.*]] = stablehlo.multiply %[[W]], %{{.*}} : tensor<4x300xf32>
// CHECK: return %[[Y]]
// KEEP-LABEL: func.func @part
// KEEP: scalify.quantize {{.*}} {cast = "c0"
// KEEP: scalify.dequantize {{.*}} by tensor<4x3xf32> {block = array<i64: 1, 128>}
// KEEP-NEXT: return
func.func @part(%x: tensor<4x300xf32>, %s: tensor<4x3xf32>) -> tensor<4x300xf32> {
  %q = scalify.quantize %x, %s by tensor<4x3xf32> {block = array<i64: 1, 128>, cast = "c0", scalify.phase = #scalify.phase<forward>} : tensor<4x300xf32> -> tensor<4x300xf8E4M3FN>
  %y = scalify.dequantize %q, %s by tensor<4x3xf32> {block = array<i64: 1, 128>} : tensor<4x300xf8E4M3FN> -> tensor<4x300xf32>
  return %y : tensor<4x300xf32>
}

// -----

// One scale stays one scale.
// CHECK-LABEL: func.func @whole
// CHECK-NEXT: scalify.quantize %arg0, %arg1 :
// CHECK-NEXT: return
func.func @whole(%x: tensor<8xf32>, %s: tensor<f32>) -> tensor<8xf8E4M3FN> {
  %q = scalify.quantize %x, %s : tensor<8xf32> -> tensor<8xf8E4M3FN>
  return %q : tensor<8xf8E4M3FN>
}
