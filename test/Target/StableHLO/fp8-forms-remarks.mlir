// RUN: scalify-opt %s --scalify-to-stablehlo=fp8-form=xla-gpu --verify-diagnostics -o /dev/null

func.func @gradients(%a: tensor<4x4xf8E5M2>, %s: tensor<f32>) -> tensor<4x4xf32> {
  %x = scalify.dequantize %a, %s : tensor<4x4xf8E5M2> -> tensor<4x4xf32>
  // expected-remark@+1 {{both operands are f8E5M2, which cuBLASLt does not multiply: XLA:GPU runs this dot in BF16}}
  %r = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
