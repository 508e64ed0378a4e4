// One more result: a row a cast, also of casts in loops and branches.
//
// RUN: scalify-opt %s --scalify-collect-statistics | FileCheck %s
// RUN: scalify-opt %s --scalify-collect-statistics --scalify-to-stablehlo | FileCheck %s --check-prefix=PLAIN --implicit-check-not=scalify.

// CHECK-LABEL: func.func public @main
// CHECK-SAME:  -> (tensor<4xf32>, tensor<3x8xf32>)
// CHECK:       scalify.quantize %arg0
// CHECK:       stablehlo.concatenate {{.*}} -> tensor<8xf32>
// CHECK:       stablehlo.while
// CHECK-SAME:  tensor<8xf32>
// CHECK:       scalify.quantize
// CHECK:       "stablehlo.case"
// CHECK:       scalify.quantize
// CHECK:       }) : (tensor<i32>) -> (tensor<4xf32>, tensor<8xf32>)
// CHECK:       return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<3x8xf32>
// PLAIN:       return %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<3x8xf32>
func.func public @main(%arg0: tensor<4xf32>, %k: tensor<i32>) -> tensor<4xf32> {
  %s = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %q = scalify.quantize %arg0, %s {cast = "c0"} : tensor<4xf32> -> tensor<4xf8E4M3FN>
  %x = scalify.dequantize %q, %s : tensor<4xf8E4M3FN> -> tensor<4xf32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = scalify.quantize %a, %s {cast = "c1"} : tensor<4xf32> -> tensor<4xf8E5M2>
    %b = scalify.dequantize %p, %s : tensor<4xf8E5M2> -> tensor<4xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %d = stablehlo.add %b, %b : tensor<4xf32>
    stablehlo.return %j, %d : tensor<i32>, tensor<4xf32>
  }
  %1 = "stablehlo.case"(%k) ({
    %p = scalify.quantize %0#1, %s {cast = "c2"} : tensor<4xf32> -> tensor<4xf8E4M3FN>
    %b = scalify.dequantize %p, %s : tensor<4xf8E4M3FN> -> tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }, {
    stablehlo.return %0#1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
