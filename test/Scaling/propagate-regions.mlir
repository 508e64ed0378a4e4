// A body reads values from outside as true values: constants, as a rule.
//
// RUN: scalify-opt %s --scalify-propagate=remarks=false | FileCheck %s
// RUN: scalify-opt %s --scalify-scaling=remarks=false --scalify-precision="recipe=fp8 remarks=false" | FileCheck %s --check-prefix=WIDE

// CHECK-LABEL: func.func @loop
// CHECK:         %[[LIMIT:.*]] = stablehlo.constant {{.*}}dense<9.000000e+00>
// CHECK:         %[[TRUE:.*]] = scalify.rescale %{{.*}} : tensor<8x8xf32>
// CHECK:         stablehlo.while
// CHECK:           stablehlo.compare LT, %{{.*}}, %[[LIMIT]]
// CHECK:           stablehlo.dot_general %{{.*}}, %[[TRUE]]

// WIDE-LABEL: func.func @loop
// WIDE:         stablehlo.dot_general {{.*}}scalify.wide = "body: inside of 'stablehlo.while', where scales are not propagated"
func.func @loop(%x: tensor<8x8xf32> {scalify.scale = -3 : i32}) -> tensor<8x8xf32> {
  %limit = stablehlo.constant dense<9.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.negate %x : tensor<8x8xf32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<f32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %0 = stablehlo.dot_general %c, %y, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = stablehlo.add %i, %limit : tensor<f32>
    stablehlo.return %1, %0 : tensor<f32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
