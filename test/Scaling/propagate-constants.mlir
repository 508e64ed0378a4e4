// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// Samples along a ray: the step between two is far smaller than they are, and
// never negative. What a density absorbs over it is a decay, of at most 1, and
// so is the product of many. With samples that count as independent the
// exponential stood at 2^3.
// CHECK-LABEL: func.func @samples
func.func @samples(%density: tensor<8x16xf32> {scalify.scale = 0 : i32}) -> tensor<8x16xf32> {
  %start = stablehlo.constant dense<2.0> : tensor<16xf32>
  %step = stablehlo.constant dense<0.125> : tensor<16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x16xf32>
  %index = stablehlo.iota dim = 0 : tensor<16xf32>
  %offset = stablehlo.multiply %index, %step : tensor<16xf32>
  // CHECK: stablehlo.add {{.*}}scalify.rule = "made of constants: evaluated", scalify.scale = 2 : i32
  %t = stablehlo.add %start, %offset : tensor<16xf32>
  %second = stablehlo.slice %t [1:2] : (tensor<16xf32>) -> tensor<1xf32>
  %first = stablehlo.slice %t [0:1] : (tensor<16xf32>) -> tensor<1xf32>
  // CHECK: stablehlo.subtract {{.*}}scalify.rule = "made of constants: evaluated", scalify.scale = -3 : i32
  %between = stablehlo.subtract %second, %first : tensor<1xf32>
  %wide = stablehlo.broadcast_in_dim %between, dims = [0] : (tensor<1xf32>) -> tensor<8x16xf32>
  %absorbs = stablehlo.maximum %density, %zero : tensor<8x16xf32>
  %less = stablehlo.negate %absorbs : tensor<8x16xf32>
  %power = stablehlo.multiply %less, %wide : tensor<8x16xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.scale = 0 : i32
  %passes = stablehlo.exponential %power : tensor<8x16xf32>
  return %passes : tensor<8x16xf32>
}

// -----

// Moves of an index: every second position, twice, reversed in sign. Rules
// would have the moments of all positions.
// CHECK-LABEL: func.func @moves
func.func @moves() -> (tensor<2x4xf32>, tensor<6xf32>) {
  %index = stablehlo.iota dim = 1 : tensor<2x64xf32>
  // CHECK: stablehlo.slice {{.*}}scalify.rule = "made of constants: evaluated", scalify.scale = 1 : i32
  %head = stablehlo.slice %index [0:2, 0:4] : (tensor<2x64xf32>) -> tensor<2x4xf32>
  %turned = stablehlo.transpose %index, dims = [1, 0] : (tensor<2x64xf32>) -> tensor<64x2xf32>
  %tail = stablehlo.slice %turned [61:64, 0:1] : (tensor<64x2xf32>) -> tensor<3x1xf32>
  %row = stablehlo.reshape %tail : (tensor<3x1xf32>) -> tensor<3xf32>
  %minus = stablehlo.negate %row : tensor<3xf32>
  // CHECK: stablehlo.concatenate {{.*}}scalify.rule = "made of constants: evaluated", scalify.scale = 6 : i32
  %both = stablehlo.concatenate %row, %minus, dim = 0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  return %head, %both : tensor<2x4xf32>, tensor<6xf32>
}

// -----

// With an argument behind them, values have their rules.
// CHECK-LABEL: func.func @arguments
// CHECK-NOT: evaluated
func.func @arguments(%x: tensor<16xf32> {scalify.scale = 0 : i32}) -> tensor<16xf32> {
  %index = stablehlo.constant dense<1.0> : tensor<16xf32>
  %sum = stablehlo.add %x, %index : tensor<16xf32>
  return %sum : tensor<16xf32>
}
