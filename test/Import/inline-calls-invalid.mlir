// RUN: scalify-opt %s --scalify-inline-calls -split-input-file -verify-diagnostics

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'func.call' op calls '@again' recursively; write the recursion as stablehlo.while}}
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'func.call' op cannot be inlined: '@outside' does not have a body of one block}}
  %0 = call @outside(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @outside(tensor<4xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{has the quantized type 'tensor<2x!quant.uniform<i8:f32, 1.000000e-01:-30>>', which no target computes}}
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.1:-30>>) -> tensor<2xf32> {
  %0 = "stablehlo.uniform_dequantize"(%x) : (tensor<2x!quant.uniform<i8:f32, 0.1:-30>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// 2^65 elements, which are 0 in 64 bits: folds would read past constants.
func.func @main(%x: tensor<2xf32>) -> tensor<1x1x2xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-error @+1 {{has the type 'tensor<4294967296x4294967296x2xf32>', which has more bytes than 63 bits can count}}
  %0 = stablehlo.broadcast_in_dim %c, dims = [2] : (tensor<2xf32>) -> tensor<4294967296x4294967296x2xf32>
  %1 = stablehlo.slice %0 [0:1, 0:1, 0:2] : (tensor<4294967296x4294967296x2xf32>) -> tensor<1x1x2xf32>
  return %1 : tensor<1x1x2xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>, %token: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
  // expected-error @+1 {{'llvm.unreachable' op ends '@main', which must return its results}}
  llvm.unreachable
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.return' op ends '@f', which must return its results}}
  stablehlo.return
}

// -----

// expected-error @+1 {{a program has no 'plan.pipeline', which is of a plan}}
module attributes {plan.pipeline = {}} {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
