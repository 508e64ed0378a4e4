// RUN: scalify-opt %s --scalify-decide-formats="remarks=0 strict" --scalify-quantize=strict -split-input-file -verify-diagnostics

// Products by blocks are summed precisely, whatever a recipe says: under strict
// that is an error, dot by dot.
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", head = true, sensitive = true, accumulation = fast>} {
  func.func @blocks(%a: tensor<256x256xf32> {scalify.role = #scalify.role<batch>}, %g: tensor<256x256xf32> {scalify.role = #scalify.role<batch>}, %w: tensor<256x256xf32> {scalify.name = "w"}) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %as = scalify.scale_hint %a, %s : tensor<256x256xf32>
    %ws = scalify.scale_hint %w, %s : tensor<256x256xf32>
    %y = stablehlo.dot_general %as, %ws, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<256x256xf32>
    %gs = scalify.scale_hint %dy, %s : tensor<256x256xf32>
    // expected-error @+1 {{cannot be summed 'fast' as a strict recipe's accumulation says: products by blocks have no other sum than the precise one}}
    %dw = stablehlo.dot_general %as, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %y, %dw : tensor<256x256xf32>, tensor<256x256xf32>
  }
}

// -----

module attributes {scalify.recipe = #scalify.recipe<"fp8-current", head = true, sensitive = true, accumulation = fast>} {
  func.func @tensors(%a: tensor<256x256xf32> {scalify.role = #scalify.role<batch>}, %g: tensor<256x256xf32> {scalify.role = #scalify.role<batch>}) -> tensor<256x256xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %as = scalify.scale_hint %a, %s : tensor<256x256xf32>
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<256x256xf32>
    %gs = scalify.scale_hint %dy, %s : tensor<256x256xf32>
    %dw = stablehlo.dot_general %as, %gs, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %dw : tensor<256x256xf32>
  }
}
