// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize -split-input-file -verify-diagnostics | FileCheck %s

// By the model of an H100: the smaller dot of the two costs more to cast than
// FP8 saves; an exception by name is not judged.
// CHECK-LABEL: func.func @wide
module attributes {scalify.recipe = #scalify.recipe<"fp8-current", head = true, unprofitable = wide, where = {"'c'" = true}>} {
  func.func @wide(%x: tensor<8192x1024xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<1024x1024xf32> {scalify.role = #scalify.role<param>},
                  %b: tensor<1024x8192xf32> {scalify.role = #scalify.role<param>}, %c: tensor<1024x16xf32> {scalify.name = "params['c']", scalify.role = #scalify.role<param>})
      -> (tensor<8192x1024xf32>, tensor<8192x8192xf32>, tensor<8192x16xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<8192x1024xf32>
    %as = scalify.scale_hint %a, %s : tensor<1024x1024xf32>
    %bs = scalify.scale_hint %b, %s : tensor<1024x8192xf32>
    %cs = scalify.scale_hint %c, %s : tensor<1024x16xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"unprofitable", "8192 x 1024 x 1024 takes
    // expected-remark @+1 {{dot stays wide: unprofitable: 8192 x 1024 x 1024 takes}}
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<8192x1024xf32>, tensor<1024x1024xf32>) -> tensor<8192x1024xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.wide
    // CHECK-SAME: tensor<8192x8192xf32>
    %z = stablehlo.dot_general %xs, %bs, contracting_dims = [1] x [0] : (tensor<8192x1024xf32>, tensor<1024x8192xf32>) -> tensor<8192x8192xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.wide
    %v = stablehlo.dot_general %xs, %cs, contracting_dims = [1] x [0] : (tensor<8192x1024xf32>, tensor<1024x16xf32>) -> tensor<8192x16xf32>
    return %y, %z, %v : tensor<8192x1024xf32>, tensor<8192x8192xf32>, tensor<8192x16xf32>
  }
}

// -----

// In BF16 instead, and listed all the same. By default nothing is judged.
// CHECK-LABEL: func.func @bf16
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, unprofitable = bf16>} {
  func.func @bf16(%x: tensor<64x32xf32>, %w: tensor<32x64xf32>) -> tensor<64x64xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    // CHECK: scalify.quantize %arg0, {{.*}} -> tensor<64x32xbf16>
    %xs = scalify.scale_hint %x, %s : tensor<64x32xf32>
    %ws = scalify.scale_hint %w, %s : tensor<32x64xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.judgement = #scalify.decision<"unprofitable", "64 x 64 x 32 takes
    // expected-remark @+1 {{dot is not made FP8: unprofitable: 64 x 64 x 32 takes}}
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}

// -----

// CHECK-LABEL: func.func @default
// CHECK: scalify.quantize %arg0, {{.*}} -> tensor<64x32xf8E4M3FN>
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {
  func.func @default(%x: tensor<64x32xf32>, %w: tensor<32x64xf32>) -> tensor<64x64xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<64x32xf32>
    %ws = scalify.scale_hint %w, %s : tensor<32x64xf32>
    %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}
