// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-store-state --scalify-validate-precision | FileCheck %s

// Under a recipe that measures scales, those of state follow the amax of what
// the last step wrote, a binade below E4M3's largest number and ten below
// F16's; a root's floor follows its scale.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<4x2xf8E4M3FN> {{.*}}scalify.stored = {exponent = -10 : i64, root = false, scale_index = 0 : i64}
// CHECK-SAME: %[[V:[a-z0-9]*]]: tensor<4x2xf16> {{.*}}scalify.stored = {exponent = -11 : i64, root = true, scale_index = 1 : i64}
// CHECK-SAME: %[[S:[a-z0-9]*]]: tensor<2xf32> {scalify.name = "scalify.state_scales", scalify.role = #scalify.role<state>, tf.aliasing_output = 3 : i32}
// CHECK-SAME: %[[A:[a-z0-9]*]]: tensor<2xf32> {scalify.name = "scalify.state_amax", scalify.role = #scalify.role<state>, tf.aliasing_output = 4 : i32}
module attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o2">} {
  func.func @main(%m: tensor<4x2xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<moment>},
                  %v: tensor<4x2xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<moment>},
                  %g: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
    // CHECK: %[[PREDICTED:.*]] = stablehlo.constant dense<[9.765625E-4, 4.8828125E-4]>
    // CHECK: %[[READ:.*]] = stablehlo.select %{{.*}}, %[[S]], %[[PREDICTED]]
    // CHECK: %[[LARGEST:.*]] = stablehlo.constant dense<[2.240000e+02, 63.96875]>
    // CHECK: stablehlo.divide %[[A]], %[[LARGEST]]
    // CHECK: %[[NEXT:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[READ]]
    // CHECK: %[[R0:.*]] = stablehlo.slice %[[READ]] [0:1]
    // CHECK: %[[RM:.*]] = stablehlo.reshape %[[R0]]
    // CHECK: %[[R1:.*]] = stablehlo.slice %[[READ]] [1:2]
    // CHECK: %[[RV:.*]] = stablehlo.reshape %[[R1]]
    // CHECK: %[[N0:.*]] = stablehlo.slice %[[NEXT]] [0:1]
    // CHECK: %[[WM:.*]] = stablehlo.reshape %[[N0]]
    // CHECK: %[[N1:.*]] = stablehlo.slice %[[NEXT]] [1:2]
    // CHECK: %[[WV:.*]] = stablehlo.reshape %[[N1]]
    // CHECK: %[[LEAST:.*]] = stablehlo.multiply %[[WV]]
    // CHECK: scalify.dequantize %[[M]], %[[RM]]
    // CHECK: scalify.quantize %{{.*}}, %[[WM]]
    %half_m = stablehlo.constant dense<0.5> : tensor<4x2xf32>
    %kept_m = stablehlo.multiply %m, %half_m {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
    %m1 = stablehlo.add %kept_m, %g {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -10 : i32} : tensor<4x2xf32>
    // CHECK: scalify.dequantize %[[V]], %[[RV]]
    %gg = stablehlo.multiply %g, %g {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -21 : i32} : tensor<4x2xf32>
    %half_v = stablehlo.constant dense<0.5> : tensor<4x2xf32>
    %kept_v = stablehlo.multiply %v, %half_v {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
    %v1 = stablehlo.add %kept_v, %gg {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -21 : i32} : tensor<4x2xf32>
    %r = stablehlo.sqrt %v1 {scalify.phase = #scalify.phase<optimizer>, scalify.scale = -10 : i32} : tensor<4x2xf32>
    // CHECK: stablehlo.broadcast_in_dim %[[LEAST]]
    // CHECK: scalify.quantize %{{.*}}, %[[WV]]
    // CHECK: %[[SEEN:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[A]]
    // CHECK: return %{{.*}}, %{{.*}}, %{{.*}}, %[[NEXT]], %[[SEEN]]
    return %m1, %v1, %r : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
}
