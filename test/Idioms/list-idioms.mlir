// RUN: scalify-opt %s --scalify-list-idioms --verify-diagnostics -o /dev/null

// Written forms of JAX, of Flax and of common code, after Import.

// RMS norm, with a gain.
func.func @rms_norm(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<8x1xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %2, %cst_0 : tensor<8x1xf32>
  %4 = stablehlo.add %3, %cst : tensor<8x1xf32>
  %5 = stablehlo.rsqrt %4 : tensor<8x1xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved norm: 1.000 / sqrt(0.062500 * sum + 1.0E-05), 16 terms, 0 factors}}
  %7 = stablehlo.multiply %arg0, %6 : tensor<8x16xf32>
  %8 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %9 = stablehlo.multiply %7, %8 : tensor<8x16xf32>
  return %9 : tensor<8x16xf32>
}

// Times the reciprocal of the root.
func.func @reciprocal(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<9.99999974E-6> : tensor<8x1xf32>
  %cst_1 = stablehlo.constant dense<1.600000e+01> : tensor<8x1xf32>
  %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_2) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.divide %2, %cst_1 : tensor<8x1xf32>
  %4 = stablehlo.add %3, %cst_0 : tensor<8x1xf32>
  %5 = stablehlo.sqrt %4 : tensor<8x1xf32>
  %6 = stablehlo.divide %cst, %5 : tensor<8x1xf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved norm: 1.000 / sqrt(0.062500 * sum + 1.0E-05), 16 terms, 0 factors}}
  %8 = stablehlo.multiply %arg0, %7 : tensor<8x16xf32>
  return %8 : tensor<8x16xf32>
}

// Layer norm with the gain in the row value, as Flax writes it.
func.func @layer_norm(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<8x1xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.divide %1, %cst_0 : tensor<8x1xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  %4 = stablehlo.subtract %arg0, %3 : tensor<8x16xf32>
  %5 = stablehlo.multiply %4, %4 : tensor<8x16xf32>
  %6 = stablehlo.reduce(%5 init: %cst_1) across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
   reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)  {
    %15 = stablehlo.add %arg2, %arg3 : tensor<f32>
    stablehlo.return %15 : tensor<f32>
  }
  %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %8 = stablehlo.divide %7, %cst_0 : tensor<8x1xf32>
  %9 = stablehlo.add %8, %cst : tensor<8x1xf32>
  %10 = stablehlo.rsqrt %9 : tensor<8x1xf32>
  %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  %12 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %13 = stablehlo.multiply %11, %12 : tensor<8x16xf32>
  // expected-remark@below {{proved norm: 1.000 / sqrt(0.062500 * sum + 1.0E-05), 16 terms, 1 factors}}
  %14 = stablehlo.multiply %4, %13 : tensor<8x16xf32>
  return %14 : tensor<8x16xf32>
}

// The variance as mean(x^2) - mean(x)^2 may round to zero: an estimate only.
func.func @variance(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<9.99999974E-6> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<8x1xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %2 = stablehlo.divide %1, %cst_0 : tensor<8x1xf32>
  %3 = stablehlo.multiply %arg0, %arg0 : tensor<8x16xf32>
  %4 = stablehlo.reduce(%3 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %6 = stablehlo.divide %5, %cst_0 : tensor<8x1xf32>
  %7 = stablehlo.multiply %2, %2 : tensor<8x1xf32>
  %8 = stablehlo.subtract %6, %7 : tensor<8x1xf32>
  %9 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  %10 = stablehlo.subtract %arg0, %9 : tensor<8x16xf32>
  %11 = stablehlo.add %8, %cst : tensor<8x1xf32>
  %12 = stablehlo.rsqrt %11 : tensor<8x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  %14 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %15 = stablehlo.multiply %13, %14 : tensor<8x16xf32>
  // expected-remark@below {{likely norm: 1.000 / sqrt(0.062500 * sum + 1.0E-05), 16 terms, 1 factors}}
  %16 = stablehlo.multiply %10, %15 : tensor<8x16xf32>
  return %16 : tensor<8x16xf32>
}

// jax.nn.softmax.
func.func @softmax(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<8xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.maximum %0, %cst : tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved x - max(x): 16 elements}}
  %3 = stablehlo.subtract %arg0, %2 : tensor<8x16xf32>
  %4 = stablehlo.exponential %3 : tensor<8x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved x / sum(x): 16 terms}}
  // expected-remark@below {{proved softmax}}
  %7 = stablehlo.divide %4, %6 : tensor<8x16xf32>
  return %7 : tensor<8x16xf32>
}

// jax.nn.log_softmax.
func.func @logsoftmax(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<0xFF800000> : tensor<8xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_1) across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
   reducer(%arg1: tensor<f32>, %arg2: tensor<f32>)  {
    %10 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }
  %1 = stablehlo.maximum %0, %cst : tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved x - max(x): 16 elements}}
  %3 = stablehlo.subtract %arg0, %2 : tensor<8x16xf32>
  %4 = stablehlo.exponential %3 : tensor<8x16xf32>
  %5 = stablehlo.reduce(%4 init: %cst_0) across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
   reducer(%arg1: tensor<f32>, %arg2: tensor<f32>)  {
    %10 = stablehlo.add %arg1, %arg2 : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %7 = stablehlo.log %6 : tensor<8x1xf32>
  %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{likely log-softmax: 16 elements}}
  %9 = stablehlo.subtract %3, %8 : tensor<8x16xf32>
  return %9 : tensor<8x16xf32>
}

// x - jax.nn.logsumexp(x), which replaces an infinite maximum.
func.func @logsumexp(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<0.000000e+00> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<8xf32>
  %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%arg0 init: %cst_2) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.maximum %0, %cst_0 : tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.is_finite %2 : (tensor<8x1xf32>) -> tensor<8x1xi1>
  %4 = stablehlo.select %3, %2, %cst : tensor<8x1xi1>, tensor<8x1xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{proved x - max(x): 16 elements, if finite}}
  %6 = stablehlo.subtract %arg0, %5 : tensor<8x16xf32>
  %7 = stablehlo.exponential %6 : tensor<8x16xf32>
  %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %10 = stablehlo.abs %9 : tensor<8x1xf32>
  %11 = stablehlo.log %10 : tensor<8x1xf32>
  %12 = stablehlo.add %11, %4 : tensor<8x1xf32>
  %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{likely log-softmax: 16 elements}}
  %14 = stablehlo.subtract %arg0, %13 : tensor<8x16xf32>
  return %14 : tensor<8x16xf32>
}

// e / (sum(e) + eps): an estimate only.
func.func @share(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<9.99999997E-7> : tensor<8x1xf32>
  %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.exponential %arg0 : tensor<8x16xf32>
  %1 = stablehlo.reduce(%0 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
  %3 = stablehlo.add %2, %cst : tensor<8x1xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
  // expected-remark@below {{likely x / sum(x): 16 terms}}
  %5 = stablehlo.divide %0, %4 : tensor<8x16xf32>
  return %5 : tensor<8x16xf32>
}

// Rotary embedding of halves.
func.func @halves(%arg0: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
  %cst_0 = stablehlo.constant dense<1.000000e+04> : tensor<8xf32>
  %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<8xf32>
  %0 = stablehlo.iota dim = 0 : tensor<8xi32>
  %1 = stablehlo.convert %0 : (tensor<8xi32>) -> tensor<8xf32>
  %2 = stablehlo.divide %1, %cst_1 : tensor<8xf32>
  %3 = stablehlo.power %cst_0, %2 : tensor<8xf32>
  %4 = stablehlo.divide %cst, %3 : tensor<8xf32>
  %5 = stablehlo.iota dim = 0 : tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %7 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %8 = stablehlo.multiply %6, %7 : tensor<8x8xf32>
  %9 = stablehlo.slice %arg0 [0:4, 0:8, 0:8] : (tensor<4x8x16xf32>) -> tensor<4x8x8xf32>
  %10 = stablehlo.slice %arg0 [0:4, 0:8, 8:16] : (tensor<4x8x16xf32>) -> tensor<4x8x8xf32>
  %11 = stablehlo.cosine %8 : tensor<8x8xf32>
  %12 = stablehlo.sine %8 : tensor<8x8xf32>
  %13 = stablehlo.broadcast_in_dim %11, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<4x8x8xf32>
  %14 = stablehlo.multiply %9, %13 : tensor<4x8x8xf32>
  %15 = stablehlo.broadcast_in_dim %12, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<4x8x8xf32>
  %16 = stablehlo.multiply %10, %15 : tensor<4x8x8xf32>
  // expected-remark@below {{proved rotation}}
  %17 = stablehlo.subtract %14, %16 : tensor<4x8x8xf32>
  %18 = stablehlo.multiply %10, %13 : tensor<4x8x8xf32>
  %19 = stablehlo.multiply %9, %15 : tensor<4x8x8xf32>
  // expected-remark@below {{proved rotation}}
  %20 = stablehlo.add %18, %19 : tensor<4x8x8xf32>
  // expected-remark@below {{proved rotated pair, of one tensor}}
  %21 = stablehlo.concatenate %17, %20, dim = 2 : (tensor<4x8x8xf32>, tensor<4x8x8xf32>) -> tensor<4x8x16xf32>
  return %21 : tensor<4x8x16xf32>
}

// Rotary embedding of alternating elements.
func.func @alternating(%arg0: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
  %cst_0 = stablehlo.constant dense<1.000000e+04> : tensor<8xf32>
  %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<8xf32>
  %0 = stablehlo.iota dim = 0 : tensor<8xi32>
  %1 = stablehlo.convert %0 : (tensor<8xi32>) -> tensor<8xf32>
  %2 = stablehlo.divide %1, %cst_1 : tensor<8xf32>
  %3 = stablehlo.power %cst_0, %2 : tensor<8xf32>
  %4 = stablehlo.divide %cst, %3 : tensor<8xf32>
  %5 = stablehlo.iota dim = 0 : tensor<8xf32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %7 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
  %8 = stablehlo.multiply %6, %7 : tensor<8x8xf32>
  %9 = stablehlo.slice %arg0 [0:4, 0:8, 0:16:2] : (tensor<4x8x16xf32>) -> tensor<4x8x8xf32>
  %10 = stablehlo.slice %arg0 [0:4, 0:8, 1:16:2] : (tensor<4x8x16xf32>) -> tensor<4x8x8xf32>
  %11 = stablehlo.cosine %8 : tensor<8x8xf32>
  %12 = stablehlo.sine %8 : tensor<8x8xf32>
  %13 = stablehlo.broadcast_in_dim %11, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<4x8x8xf32>
  %14 = stablehlo.multiply %9, %13 : tensor<4x8x8xf32>
  %15 = stablehlo.broadcast_in_dim %12, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<4x8x8xf32>
  %16 = stablehlo.multiply %10, %15 : tensor<4x8x8xf32>
  // expected-remark@below {{proved rotation}}
  %17 = stablehlo.subtract %14, %16 : tensor<4x8x8xf32>
  %18 = stablehlo.multiply %10, %13 : tensor<4x8x8xf32>
  %19 = stablehlo.multiply %9, %15 : tensor<4x8x8xf32>
  // expected-remark@below {{proved rotation}}
  %20 = stablehlo.add %18, %19 : tensor<4x8x8xf32>
  %21 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<4x8x8xf32>) -> tensor<4x8x8x1xf32>
  %22 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<4x8x8xf32>) -> tensor<4x8x8x1xf32>
  %23 = stablehlo.concatenate %21, %22, dim = 3 : (tensor<4x8x8x1xf32>, tensor<4x8x8x1xf32>) -> tensor<4x8x8x2xf32>
  %24 = stablehlo.reshape %23 : (tensor<4x8x8x2xf32>) -> tensor<4x8x16xf32>
  return %24 : tensor<4x8x16xf32>
}

// jax.nn.gelu, tanh form.
func.func @gelu(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<5.000000e-01> : tensor<8x16xf32>
  %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<8x16xf32>
  %cst_1 = stablehlo.constant dense<0.797884583> : tensor<8x16xf32>
  %cst_2 = stablehlo.constant dense<4.471500e-02> : tensor<8x16xf32>
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8x16xf32>
  %1 = stablehlo.multiply %0, %arg0 : tensor<8x16xf32>
  %2 = stablehlo.multiply %1, %cst_2 : tensor<8x16xf32>
  %3 = stablehlo.add %arg0, %2 : tensor<8x16xf32>
  %4 = stablehlo.multiply %3, %cst_1 : tensor<8x16xf32>
  %5 = stablehlo.tanh %4 : tensor<8x16xf32>
  %6 = stablehlo.add %5, %cst_0 : tensor<8x16xf32>
  %7 = stablehlo.multiply %6, %cst : tensor<8x16xf32>
  // expected-remark@below {{likely x g(x): tanh, up to 1.0}}
  %8 = stablehlo.multiply %arg0, %7 : tensor<8x16xf32>
  return %8 : tensor<8x16xf32>
}

// jax.nn.silu.
func.func @silu(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %cst = stablehlo.constant dense<1.000000e+00> : tensor<8x16xf32>
  %0 = stablehlo.negate %arg0 : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  %2 = stablehlo.add %1, %cst : tensor<8x16xf32>
  %3 = stablehlo.divide %cst, %2 : tensor<8x16xf32>
  // expected-remark@below {{proved x g(x): logistic, up to 1.0}}
  %4 = stablehlo.multiply %arg0, %3 : tensor<8x16xf32>
  return %4 : tensor<8x16xf32>
}

// erf and GELU of it, as Import expands them, with polynomials as arguments.
func.func @erf(%arg0: tensor<8xf32>, %near: tensor<8xf32>, %far: tensor<8xf32>) -> tensor<8xf32> {
  %root = stablehlo.constant dense<0.707106769> : tensor<8xf32>
  %half = stablehlo.constant dense<5.000000e-01> : tensor<8xf32>
  %one = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
  %0 = stablehlo.multiply %arg0, %root : tensor<8xf32>
  %1 = stablehlo.abs %0 : tensor<8xf32>
  %2 = stablehlo.compare LT, %1, %half, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  %3 = stablehlo.sign %0 : tensor<8xf32>
  %4 = stablehlo.multiply %3, %far : tensor<8xf32>
  // expected-remark@below {{likely erf}}
  %5 = stablehlo.select %2, %near, %4 : tensor<8xi1>, tensor<8xf32>
  %6 = stablehlo.add %5, %one : tensor<8xf32>
  %7 = stablehlo.multiply %arg0, %half : tensor<8xf32>
  // expected-remark@below {{likely x g(x): erf, up to 1.0}}
  %8 = stablehlo.multiply %7, %6 : tensor<8xf32>
  return %8 : tensor<8xf32>
}
