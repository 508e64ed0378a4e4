// RUN: scalify-opt %s --scalify-widen-values -split-input-file | FileCheck %s

// Types change inside only; bits of a narrow value stay those of its type; a
// loop carries wide values.
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  // CHECK-LABEL: func.func @main(%arg0: tensor<4xf16>, %arg1: tensor<4xi32>) -> (tensor<4xf16>, tensor<4xi16>)
  func.func @main(%x: tensor<4xf16>, %n: tensor<4xi32>) -> (tensor<4xf16>, tensor<4xi16>) {
    // CHECK: %[[X:.*]] = stablehlo.convert %arg0 : (tensor<4xf16>) -> tensor<4xf32>
    // CHECK: stablehlo.constant dense<0.0999755859> : tensor<4xf32>
    %c = stablehlo.constant dense<9.997550e-02> : tensor<4xf16>
    // CHECK-NOT: stablehlo.convert
    %wide = stablehlo.convert %x : (tensor<4xf16>) -> tensor<4xf32>
    %back = stablehlo.convert %wide : (tensor<4xf32>) -> tensor<4xf16>
    // CHECK: %[[Y:.*]] = stablehlo.add %[[X]], %{{.*}} : tensor<4xf32>
    %y = stablehlo.add %back, %c : tensor<4xf16>
    // CHECK: %[[H:.*]] = stablehlo.convert %[[Y]] : (tensor<4xf32>) -> tensor<4xf16>
    // CHECK: stablehlo.bitcast_convert %[[H]] : (tensor<4xf16>) -> tensor<4xi16>
    %bits = stablehlo.bitcast_convert %y : (tensor<4xf16>) -> tensor<4xi16>
    // CHECK: stablehlo.maximum %[[Y]], %[[X]] : tensor<4xf32>
    %z = stablehlo.maximum %y, %x : tensor<4xf16>
    // CHECK: stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xf16>
    // CHECK: return
    return %z, %bits : tensor<4xf16>, tensor<4xi16>
  }
}

// -----

module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  // CHECK-LABEL: func.func @other_recipes
  // CHECK-NEXT: stablehlo.add %arg0, %arg0 : tensor<4xbf16>
  func.func @other_recipes(%x: tensor<4xbf16>) -> tensor<4xbf16> {
    %y = stablehlo.add %x, %x : tensor<4xbf16>
    return %y : tensor<4xbf16>
  }
}

// -----

// A recipe of BF16 leaves BF16 as the user wrote it: it has F32's exponents.
module attributes {scalify.recipe = #scalify.recipe<"bf16">} {
  // CHECK-LABEL: func.func @beside_bf16
  // CHECK-NEXT: stablehlo.convert %arg1 : (tensor<4xf16>) -> tensor<4xf32>
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.add %arg0, %arg0 : tensor<4xbf16>
  // CHECK-NEXT: stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
  // CHECK-NEXT: %[[Z:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xf16>
  // CHECK-NEXT: return %[[Y]], %[[Z]]
  func.func @beside_bf16(%x: tensor<4xbf16>, %h: tensor<4xf16>) -> (tensor<4xbf16>, tensor<4xf16>) {
    %y = stablehlo.add %x, %x : tensor<4xbf16>
    %z = stablehlo.add %h, %h : tensor<4xf16>
    return %y, %z : tensor<4xbf16>, tensor<4xf16>
  }
}

// -----

// One of F16 has more digits than BF16.
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  // CHECK-LABEL: func.func @beside_f16
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
  func.func @beside_f16(%x: tensor<4xbf16>) -> tensor<4xbf16> {
    %y = stablehlo.add %x, %x : tensor<4xbf16>
    return %y : tensor<4xbf16>
  }
}
