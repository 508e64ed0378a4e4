// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// The gradients of weights stay in BF16: the input of the layer is cast twice.
// The first layer has no gradient of its input; its weight is known all the
// same, by the input and by the size.
// CHECK-LABEL: func.func @weight_grad
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, weight_grad = bf16, where = {"^params\\['a'\\]$" = wide}>} {
  func.func @weight_grad(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x4xf32> {scalify.name = "params['a']", scalify.role = #scalify.role<param>},
                         %b: tensor<4x2xf32> {scalify.name = "params['b']", scalify.role = #scalify.role<param>}, %g: tensor<16x2xf32> {scalify.role = #scalify.role<batch>})
      -> (tensor<16x2xf32>, tensor<8x4xf32>, tensor<4x2xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "a linear layer
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    // CHECK: %[[H:.*]] = stablehlo.tanh
    %h = stablehlo.tanh %y : tensor<16x4xf32>
    // CHECK-DAG: scalify.quantize %[[H]], {{.*}} -> tensor<16x4xf8E4M3FN>
    // CHECK-DAG: scalify.quantize %[[H]], {{.*}} -> tensor<16x4xbf16>
    %hs = scalify.scale_hint %h, %s : tensor<16x4xf32>
    %bs = scalify.scale_hint %b, %s : tensor<4x2xf32>
    %z = stablehlo.dot_general %hs, %bs, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
    // CHECK: %[[DZ:.*]] = stablehlo.negate
    %dz = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<16x2xf32>
    // CHECK-DAG: scalify.quantize %[[DZ]], {{.*}} -> tensor<16x2xf8E5M2>
    // CHECK-DAG: scalify.quantize %[[DZ]], {{.*}} -> tensor<16x2xbf16>
    %dzs = scalify.scale_hint %dz, %s : tensor<16x2xf32>
    %dh = stablehlo.dot_general %dzs, %bs, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<16x2xf32>, tensor<4x2xf32>) -> tensor<16x4xf32>
    %db = stablehlo.dot_general %hs, %dzs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
    %dhs = scalify.scale_hint %dh, %s : tensor<16x4xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "a linear layer
    %da = stablehlo.dot_general %xs, %dhs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    return %z, %da, %db : tensor<16x2xf32>, tensor<8x4xf32>, tensor<4x2xf32>
  }
}

// -----

// One kind of dot wide, and an exception for one kind of one layer's dots. A
// role that is wide stays so.
// CHECK-LABEL: func.func @kinds
module attributes {scalify.recipe = #scalify.recipe<"fp8", linear = true, head = false, input_grad = wide, where = {"weight_grad:'a'" = f8E5M2, "forward_dot:'a'" = wide}>} {
  func.func @kinds(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.name = "params['a']", scalify.role = #scalify.role<param>},
                   %b: tensor<8x8xf32> {scalify.name = "params['b']", scalify.role = #scalify.role<param>}, %g: tensor<16x8xf32> {scalify.role = #scalify.role<batch>})
      -> (tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %h = stablehlo.tanh %x : tensor<16x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<16x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"name", "a linear layer (recipe: where \22forward_dot:'a'\22 = false)"
    %y = stablehlo.dot_general %hs, %as, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %u = stablehlo.tanh %y : tensor<16x8xf32>
    %us = scalify.scale_hint %u, %s : tensor<16x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before the loss (recipe: head = false)"
    %z = stablehlo.dot_general %us, %bs, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<16x8xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<16x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"input_grad", "a linear layer (recipe: input_grad = false)"
    %dh = stablehlo.dot_general %dys, %as, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.wide
    %da = stablehlo.dot_general %hs, %dys, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    return %z, %da, %dh : tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>
  }
}
