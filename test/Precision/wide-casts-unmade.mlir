// RUN: scalify-opt %s --scalify-decide-formats --scalify-quantize -verify-diagnostics -o /dev/null

// What only a dot reads that stays wide for another cast is not made.
// expected-remark @below {{cast 'c7: arg1' at '' is not made: its readers stay wide}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>,
    scalify.wide_casts = [{cast = "c0: arg0", elements = 64 : i64, names = "", reason = "seen"}, {cast = "c7: arg1", elements = 64 : i64, names = "", reason = "seen"}]} {
  func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %a = scalify.scale_hint %x, %s : tensor<8x8xf32>
    %b = scalify.scale_hint %w, %s : tensor<8x8xf32>
    // expected-remark @below {{dot stays wide: health: of cast 'c0: arg0'}}
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %y : tensor<8x8xf32>
  }
}
