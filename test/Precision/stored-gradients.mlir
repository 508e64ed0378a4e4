// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-expand-measured-scales --scalify-scale-gradients --scalify-validate-precision -split-input-file | FileCheck %s --check-prefix=MU
// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-expand-measured-scales --scalify-scale-gradients="keeps-state=0" -split-input-file 2>&1 | FileCheck %s --check-prefix=NONE

// The gradient of a weight is cast by the scale that all ranks share, and the
// optimizer, its norm too, reads the data.
// CHECK-LABEL: func.func @main
// CHECK: %[[DW:.*]] = stablehlo.dot_general {{.*}} -> tensor<8x4xf32>
// CHECK: %[[FITS:.*]] = stablehlo.select {{.*}} : tensor<1xi1>, tensor<1xf32>
// CHECK: %[[S:.*]] = scalify.shared_scale %[[FITS]] : tensor<1xf32>
// CHECK: %[[Q:.*]] = scalify.quantize %[[DW]], %[[S]] {{.*}}scalify.gradient = 0 : i64, scalify.gradient_part = "whole"{{.*}} -> tensor<8x4xf8E4M3FN>
// CHECK: %[[G:.*]] = scalify.dequantize %[[Q]], %[[S]]
// CHECK: stablehlo.multiply %[[G]], %[[G]]
// CHECK: stablehlo.subtract %{{.*}}, %[[G]]

// mu is an argument and a result; 0 stands for 1.
// MU-LABEL: func.func @main
// MU-SAME: %[[KEPT:[a-z0-9]*]]: tensor<1xf32> {scalify.name = "scalify.gradient_mu", scalify.role = #scalify.role<state>, tf.aliasing_output = 2 : i32})
// MU: %[[MU:.*]] = stablehlo.select %{{.*}}, %[[KEPT]], %[[ONE:.*]] :
// MU: %[[INVERSE:.*]] = stablehlo.divide %[[ONE]], %[[MU]]
// MU: %[[M0:.*]] = stablehlo.slice %[[MU]] [0:1]
// MU: %[[M:.*]] = stablehlo.reshape %[[M0]]
// MU: %[[I0:.*]] = stablehlo.slice %[[INVERSE]] [0:1]
// MU: %[[I:.*]] = stablehlo.reshape %[[I0]]
// MU: %[[DW:.*]] = stablehlo.dot_general {{.*}} -> tensor<8x4xf32>
// MU: %[[MS:.*]] = stablehlo.broadcast_in_dim %[[M]]
// MU: %[[SCALED:.*]] = stablehlo.multiply %[[DW]], %[[MS]]
// MU: %[[Q:.*]] = scalify.quantize %[[SCALED]]
// MU: %[[DATA:.*]] = stablehlo.convert %[[Q]] : (tensor<8x4xf8E4M3FN>) -> tensor<8x4xf32>
// MU: %[[ABS:.*]] = stablehlo.abs %[[DATA]]
// MU: stablehlo.compare GE, %[[ABS]]
// MU: %[[D:.*]] = scalify.dequantize %[[Q]]
// MU: %[[IS:.*]] = stablehlo.broadcast_in_dim %[[I]]
// MU: %[[G:.*]] = stablehlo.multiply %[[D]], %[[IS]]
// MU: stablehlo.multiply %[[G]], %[[G]]
// MU: %[[OVER:.*]] = stablehlo.compare GT
// MU: %[[NEXT:.*]] = stablehlo.select %[[OVER]]
// MU: %[[IN:.*]] = stablehlo.clamp %{{.*}}, %[[NEXT]], %{{.*}} : tensor<1xf32>
// MU: return {{.*}}, %[[IN]] :

// NONE: remark: mu of gradients stays 1
// NONE-NOT: scalify.gradient_mu
module attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o1", head = true, masters = given>} {
  func.func @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
                  %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %t: tensor<16x4xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<8x4xf32>, tensor<f32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %ws = scalify.scale_hint %w, %s : tensor<8x4xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %dy = stablehlo.subtract %y, %t {scalify.phase = #scalify.phase<backward>} : tensor<16x4xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<16x4xf32>
    %dw = stablehlo.dot_general %xs, %dys, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>, scalify.scale = 0 : i32} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %square = stablehlo.multiply %dw, %dw {scalify.phase = #scalify.phase<optimizer>} : tensor<8x4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %norm = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
    %new = stablehlo.subtract %w, %dw {scalify.phase = #scalify.phase<optimizer>} : tensor<8x4xf32>
    return %new, %norm : tensor<8x4xf32>, tensor<f32>
  }
}
