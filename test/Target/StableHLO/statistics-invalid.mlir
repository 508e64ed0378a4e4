// What a device sees of its own part is no result of main.
//
// RUN: scalify-opt %s --scalify-collect-statistics -verify-diagnostics
// RUN: scalify-opt %s --scalify-to-stablehlo=probe-casts=1 -verify-diagnostics

sdy.mesh @mesh = <["data"=2]>

func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"data"}]>] out_shardings=[<@mesh, [{"data"}]>] manual_axes={"data"} (%x: tensor<4xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    // expected-error @below {{'scalify.quantize' op is in 'sdy.manual_computation', where it cannot be measured: a device sees only its own shard; measure the program without shard_map}}
    %q = scalify.quantize %x, %s {cast = "c0"} : tensor<4xf32> -> tensor<4xf8E4M3FN>
    %y = scalify.dequantize %q, %s : tensor<4xf8E4M3FN> -> tensor<4xf32>
    sdy.return %y : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
