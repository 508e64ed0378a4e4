// A value that a body reverses and transposes is cast once, where it is made;
// the moves are replayed on narrow data.
//
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" --scalify-decide-formats="recipe=fp8 strict=1 remarks=0" --scalify-quantize=strict=1 | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK:         stablehlo.while
// CHECK:         do
// CHECK:           %[[Q:.*]] = scalify.quantize %[[X:.*]], %{{.*}} {cast = "{{.*}}: carry1"
// CHECK-NOT:       scalify.quantize %[[X]]
// CHECK:           %[[R:.*]] = stablehlo.reverse %[[Q]], dims = [0] : tensor<8x8xf8E4M3FN>
// CHECK:           %[[E:.*]] = scalify.dequantize %[[R]]
// CHECK:           %[[T:.*]] = stablehlo.transpose %[[R]], dims = [1, 0] {{.*}} tensor<8x8xf8E4M3FN>
// CHECK:           %[[D:.*]] = scalify.dequantize %[[T]]
// CHECK:           stablehlo.dot_general %[[D]], %{{.*}}
// CHECK:           stablehlo.dot_general %[[E]], %{{.*}}
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %v = stablehlo.reverse %c, dims = [0] : tensor<8x8xf32>
    %t = stablehlo.transpose %v, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %t, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %s = stablehlo.add %y, %z : tensor<8x8xf32>
    %u = stablehlo.tanh %s : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %u : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
