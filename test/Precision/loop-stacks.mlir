// A stack of what a loop saves holds narrow data, where only casts read it: the
// forward's cast is the only one. A stack that something else reads stays wide.
//
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" --scalify-decide-formats="recipe=fp8 strict=1 remarks=0" --scalify-quantize=strict=1 | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-DAG:     %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x8x8xf8E4M3FN>
// CHECK:         %[[F:.*]]:4 = stablehlo.while({{.*}}%[[A:.*]] = %[[Z]], %{{.*}} = %{{.*}}) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf8E4M3FN>, tensor<4x8x8xf32>
// CHECK:         do
// CHECK:           %[[Q:.*]] = scalify.quantize %[[C:.*]], %{{.*}} {cast = "c0: carry1"
// CHECK:           %[[R:.*]] = stablehlo.reshape %[[Q]]
// CHECK:           stablehlo.dynamic_update_slice %[[A]], %[[R]], {{.*}} -> tensor<4x8x8xf8E4M3FN>
// CHECK:         stablehlo.while({{.*}} = %[[F]]#2) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf8E4M3FN>
// CHECK:         do
// CHECK:           %[[S:.*]] = stablehlo.dynamic_slice {{.*}} -> tensor<1x8x8xf8E4M3FN>
// CHECK-NOT:       scalify.quantize %[[S]]
// CHECK:           %[[T:.*]] = stablehlo.reshape %[[S]]
// CHECK:           scalify.dequantize %[[T]]
// CHECK:         return
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>}) -> (tensor<8x8xf32>, tensor<4x8x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x8x8xf32>
  %r:4 = stablehlo.while(%i = %zero, %c = %x, %a = %zeros, %b = %zeros) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %y = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %u = stablehlo.reshape %c : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %p = stablehlo.dynamic_update_slice %a, %u, %i, %zero, %zero : (tensor<4x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x8x8xf32>
    %q = stablehlo.dynamic_update_slice %b, %u, %i, %zero, %zero : (tensor<4x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %p, %q : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>, tensor<4x8x8xf32>
  }
  %g = stablehlo.constant dense<1.0> : tensor<8x8xf32>
  %s:3 = stablehlo.while(%i = %zero, %c = %g, %a = %r#2) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %last = stablehlo.constant dense<3> : tensor<i32>
    %k = stablehlo.subtract %last, %i : tensor<i32>
    %v = stablehlo.dynamic_slice %a, %k, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %u = stablehlo.reshape %v : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %u, %w, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %a : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
  }
  return %s#1, %r#3 : tensor<8x8xf32>, tensor<4x8x8xf32>
}
