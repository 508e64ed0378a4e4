// Branches whose values are 2^20 apart have no one scale: each returns its own
// beside its value.
//
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[LOW:.*]] = stablehlo.constant dense<9.765625E-4> : tensor<f32>
// CHECK-DAG:     %[[HIGH:.*]] = stablehlo.constant dense<1.024000e+03> : tensor<f32>
// CHECK:         %[[R:.*]]:2 = "stablehlo.case"
// CHECK:           stablehlo.return %{{.*}}, %[[HIGH]]
// CHECK:           stablehlo.return %{{.*}}, %[[LOW]]
// CHECK:         scalify.scale_hint %[[R]]#0, %[[R]]#1 {rule = "branches, dynamic: that of the branch that ran, of 20.0 binades"
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -2 : i32}, %i: tensor<i32>) -> tensor<8x8xf32> {
  %r = "stablehlo.case"(%i) ({
    %k = stablehlo.constant dense<1.024000e+03> : tensor<8x8xf32>
    %y = stablehlo.multiply %x, %k : tensor<8x8xf32>
    stablehlo.return %y : tensor<8x8xf32>
  }, {
    %k = stablehlo.constant dense<9.765625E-4> : tensor<8x8xf32>
    %y = stablehlo.multiply %x, %k : tensor<8x8xf32>
    stablehlo.return %y : tensor<8x8xf32>
  }) : (tensor<i32>) -> tensor<8x8xf32>
  %y = stablehlo.dot_general %r, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
