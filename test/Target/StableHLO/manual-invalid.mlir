// A body of a manual computation sees nothing from outside but constants.
//
// RUN: scalify-opt %s --scalify-to-stablehlo -verify-diagnostics

sdy.mesh @mesh = <["data"=2]>

func.func @capture(%a: tensor<8xf32>, %s: tensor<f32>) -> tensor<8xf32> {
  // expected-error @below {{'sdy.manual_computation' op reads a 'tensor<f32>' from outside that is no constant: pass it as an operand}}
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"data"}]>] out_shardings=[<@mesh, [{"data"}]>] manual_axes={"data"} (%x: tensor<4xf32>) {
    %1 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.multiply %x, %1 : tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
