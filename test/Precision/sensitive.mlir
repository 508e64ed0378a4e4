// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize -split-input-file -verify-diagnostics | FileCheck %s

// A regression on two linear layers, the second of which is the head and stays
// wide. The first one's operands in E4M3 leave an error of 2 * 6.0e-4 of its
// mean square (ln 2 / 1.5 / 12 / 2^6 each), and so of the output's, whose
// residual is taken to fall to 1 / 64: 0.077 of the gradient's. The gradient of
// the first weight has another 0.003 of its own operands, 0.080 in all, that of
// the second none. So 0.154 of 0.157 come from that dot: above 0.04 of all
// gradients, it stays wide, and the others, of the backward, do not.
// CHECK-LABEL: func.func @regression
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @regression(%x: tensor<256x64xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 0 : i32},
                        %t: tensor<256x64xf32> {scalify.role = #scalify.role<batch>, scalify.scale = 0 : i32},
                        %a: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -3 : i32},
                        %b: tensor<64x64xf32> {scalify.role = #scalify.role<param>, scalify.scale = -3 : i32})
      -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<256x64xf32>
    %as = scalify.scale_hint %a, %s : tensor<64x64xf32>
    // CHECK: %[[X:.*]] = scalify.dequantize {{.*}} : tensor<256x64xf8E4M3FN>
    // CHECK: stablehlo.dot_general %arg0, %arg2, {{.*}}scalify.wide = #scalify.decision<"sensitive", "its rounding makes up 98% of the error of gradients, estimated at 0.08 of their mean square (recipe: sensitive = false)"
    // expected-remark @+1 {{dot stays wide: sensitive: its rounding makes up 98%}}
    %h = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %y = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    %d = stablehlo.subtract %y, %t : tensor<256x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %gb = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %g = stablehlo.dot_general %d, %b, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    %xs2 = scalify.scale_hint %x, %s : tensor<256x64xf32>
    %gs = scalify.scale_hint %g, %s : tensor<256x64xf32>
    // CHECK: %[[G:.*]] = scalify.dequantize {{.*}} : tensor<256x64xf8E5M2>
    // CHECK: stablehlo.dot_general %[[X]], %[[G]]
    %ga = stablehlo.dot_general %xs2, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
    return %ga, %gb : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

// Arguments that count as 2^0 for want of a scale say nothing of errors.
// CHECK-LABEL: func.func @undeclared
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  func.func @undeclared(%x: tensor<256x64xf32> {scalify.role = #scalify.role<batch>},
                        %t: tensor<256x64xf32> {scalify.role = #scalify.role<batch>},
                        %a: tensor<64x64xf32> {scalify.role = #scalify.role<param>},
                        %b: tensor<64x64xf32> {scalify.role = #scalify.role<param>})
      -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<256x64xf32>
    %as = scalify.scale_hint %a, %s : tensor<64x64xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.wide
    // CHECK: stablehlo.dot_general
    %h = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %y = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    %d = stablehlo.subtract %y, %t : tensor<256x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %gb = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
    // expected-remark @+1 {{dot stays wide: head}}
    %g = stablehlo.dot_general %d, %b, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<64x64xf32>) -> tensor<256x64xf32>
    %xs2 = scalify.scale_hint %x, %s : tensor<256x64xf32>
    %gs = scalify.scale_hint %g, %s : tensor<256x64xf32>
    %ga = stablehlo.dot_general %xs2, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<256x64xf32>) -> tensor<64x64xf32>
    return %ga, %gb : tensor<64x64xf32>, tensor<64x64xf32>
  }
}
