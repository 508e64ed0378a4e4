// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize -split-input-file -verify-diagnostics | FileCheck %s

// The cast of %x is not made, and the dot that reads it stays wide. The other
// dot shares %w, whose cast keeps its number.
// CHECK-NOT: scalify.wide_casts
// CHECK-LABEL: func.func @main
// CHECK-NOT: "c0:
// CHECK-DAG: %[[W:.*]] = scalify.quantize %arg1, {{.*}}cast = "c1: arg1"
// CHECK-DAG: %[[V:.*]] = scalify.quantize %arg2, {{.*}}cast = "c2: arg2"
// CHECK: stablehlo.dot_general %arg0, %arg1
// CHECK-SAME: scalify.wide = #scalify.decision<"health", "of cast 'c0: arg0', 50 % of the values saturated"
// CHECK: stablehlo.dot_general
// CHECK-NOT: scalify.wide
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>,
    scalify.wide_casts = [{cast = "c0: arg0", elements = 64 : i64, names = "", reason = "50 % of the values saturated"}]} {
  func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<8x8xf32>
    %b = scalify.scale_hint %w, %s : tensor<8x8xf32>
    %c = scalify.scale_hint %v, %s : tensor<8x8xf32>
    // expected-remark @below {{dot stays wide: health: of cast 'c0: arg0'}}
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = stablehlo.dot_general %c, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %y, %z : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// expected-error @below {{has no cast 'c9: arg0' of 64 elements at '' to leave wide}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>,
    scalify.wide_casts = [{cast = "c9: arg0", elements = 64 : i64, names = "", reason = "seen"}]} {
  func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    return %x : tensor<8x8xf32>
  }
}
