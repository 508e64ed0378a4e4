// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-store-state --scalify-validate-precision | FileCheck %s

// Arguments and results become the data; true values are made at the first
// reader, squares of a second moment's root. A value returned as it is and one
// without a format stay as they are.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<4x2xf16> {scalify.role = #scalify.role<param>, scalify.scale = -5 : i32, scalify.stored = {exponent = -5 : i64, root = false}, tf.aliasing_output = 0 : i32}
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<4x2xf8E4M3FN> {{.*}}scalify.stored = {exponent = -10 : i64, root = false}
// CHECK-SAME: %[[V:[a-z0-9]*]]: tensor<4x2xf8E4M3FN> {{.*}}scalify.stored = {exponent = -11 : i64, root = true}
// CHECK-SAME: %{{[a-z0-9]*}}: tensor<4x2xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 3 : i32}
// CHECK-SAME: -> (tensor<4x2xf16>, tensor<4x2xf8E4M3FN>, tensor<4x2xf8E4M3FN>, tensor<4x2xf32>)
module attributes {scalify.recipe = #scalify.recipe<"fp16", moments = f8E4M3FN>} {
  func.func @main(%w: tensor<4x2xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = -5 : i32},
                  %m: tensor<4x2xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<moment>},
                  %v: tensor<4x2xf32> {tf.aliasing_output = 2 : i32, scalify.role = #scalify.role<moment>},
                  %frozen: tensor<4x2xf32> {tf.aliasing_output = 3 : i32, scalify.role = #scalify.role<param>},
                  %g: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
    // CHECK-DAG: %[[SW:.*]] = stablehlo.constant dense<3.125000e-02>
    // CHECK-DAG: %[[SM:.*]] = stablehlo.constant dense<9.765625E-4>
    // CHECK-DAG: %[[SV:.*]] = stablehlo.constant dense<4.8828125E-4>
    // CHECK: stablehlo.multiply %arg4, %arg4
    %gg = stablehlo.multiply %g, %g {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -21 : i32} : tensor<4x2xf32>
    // CHECK: %[[DM:.*]] = scalify.dequantize %[[M]]
    // CHECK-NEXT: %[[MKEPT:.*]] = stablehlo.multiply %[[DM]]
    // CHECK-NEXT: %[[M1:.*]] = stablehlo.add %[[MKEPT]], %arg4
    %half_m = stablehlo.constant dense<0.5> : tensor<4x2xf32>
    %kept_m = stablehlo.multiply %m, %half_m {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
    %m1 = stablehlo.add %kept_m, %g {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -10 : i32} : tensor<4x2xf32>
    // CHECK: %[[QM:.*]] = scalify.quantize %[[M1]], {{.*}}scalify.state = "value"
    // CHECK: %[[DV:.*]] = scalify.dequantize %[[V]], {{.*}}scalify.phase = #scalify.phase<optimizer>
    // CHECK-NEXT: %[[VV:.*]] = stablehlo.multiply %[[DV]], %[[DV]] {scalify.phase = #scalify.phase<optimizer>}
    // CHECK-NEXT: %[[VKEPT:.*]] = stablehlo.multiply %[[VV]]
    // CHECK-NEXT: %[[V1:.*]] = stablehlo.add %[[VKEPT]]
    %half_v = stablehlo.constant dense<0.5> : tensor<4x2xf32>
    %kept_v = stablehlo.multiply %v, %half_v {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
    %v1 = stablehlo.add %kept_v, %gg {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -21 : i32} : tensor<4x2xf32>
    %r = stablehlo.sqrt %v1 {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -10 : i32} : tensor<4x2xf32>
    %u = stablehlo.divide %m1, %r {scalify.phase = #scalify.phase<optimizer>, scalify.scale = 0 : i32} : tensor<4x2xf32>
    // CHECK: %[[DW:.*]] = scalify.dequantize %[[W]]
    // CHECK-NEXT: %[[W1:.*]] = stablehlo.subtract %[[DW]]
    %w1 = stablehlo.subtract %w, %u {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -3 : i32} : tensor<4x2xf32>
    // CHECK: %[[QW:.*]] = scalify.quantize %[[W1]]
    // CHECK: %[[QV:.*]] = scalify.quantize {{.*}}scalify.state = "root"
    // CHECK-NOT: dequantize
    // CHECK: return %[[QW]], %[[QM]], %[[QV]], %arg3
    return %w1, %m1, %v1, %frozen : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
}
