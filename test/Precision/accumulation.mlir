// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// What is not as the phase has it is said on the dot: of the first layer the
// forward is precise by name, of the second the gradient of the weight is fast.
// CHECK-LABEL: func.func @kinds
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, accumulation = [fast, precise, fast], where = {"^a$" = precise, "^a$" = f8E5M2}>} {
  func.func @kinds(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.name = "a"}, %b: tensor<8x8xf32> {scalify.name = "b"}, %g: tensor<16x8xf32> {scalify.role = #scalify.role<batch>})
      -> (tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    // The exceptions for formats and for sums are apart.
    // CHECK: scalify.quantize %arg1, {{.*}} -> tensor<8x8xf8E5M2>
    // CHECK: stablehlo.dot_general {{.*}}{scalify.accumulation = #scalify.accumulation<precise>, scalify.dot_kind
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h = stablehlo.tanh %y : tensor<16x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<16x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.accumulation
    %z = stablehlo.dot_general %hs, %bs, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %dz = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<16x8xf32>
    %dzs = scalify.scale_hint %dz, %s : tensor<16x8xf32>
    // CHECK: stablehlo.dot_general
    // CHECK-NOT: scalify.accumulation
    %dh = stablehlo.dot_general %dzs, %bs, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    // CHECK: stablehlo.dot_general {{.*}}scalify.accumulation = #scalify.accumulation<fast>
    %db = stablehlo.dot_general %hs, %dzs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    return %z, %db, %dh : tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>
  }
}

// -----

// Presets say nothing, and sums of 16 bits have one way.
// CHECK-LABEL: func.func @usual
// CHECK-NOT: scalify.accumulation
module attributes {scalify.recipe = #scalify.recipe<"bf16", accumulation = precise>} {
  func.func @usual(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.name = "a"}) -> tensor<16x8xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    return %y : tensor<16x8xf32>
  }
}
