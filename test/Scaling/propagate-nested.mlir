// A body has hints as any block has, also on what it reads from outside.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" --scalify-validate-scales | FileCheck %s

// CHECK-LABEL: func.func @nested
// CHECK:         stablehlo.while
// CHECK:           stablehlo.while
// CHECK:             %[[A:.*]] = scalify.scale_hint %[[C:.*]], %{{.*}} : tensor<8x8xf32>
// CHECK:             %[[B:.*]] = scalify.scale_hint %arg1, %{{.*}} : tensor<8x8xf32>
// CHECK:             stablehlo.dot_general %[[A]], %[[B]]
// CHECK:         return
func.func @nested(%x: tensor<8x8xf32> {scalify.scale = -7 : i32},
                  %w: tensor<8x8xf32> {scalify.scale = -2 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %q:2 = stablehlo.while(%k = %zero, %e = %c) : tensor<i32>, tensor<8x8xf32>
     cond {
      %0 = stablehlo.compare GT, %n, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %d = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %d, %e : tensor<8x8xf32>
      %t = stablehlo.multiply %s, %x : tensor<8x8xf32>
      %h = stablehlo.tanh %t : tensor<8x8xf32>
      %m = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %m, %h : tensor<i32>, tensor<8x8xf32>
    }
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %q#1 : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
