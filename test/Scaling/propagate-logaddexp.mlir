// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// The sum of two probabilities in logarithms, and its gradient, where what
// cannot be stands at -1e5: every exponential is between 0 and 1. With the
// moments of -1e5 they would be at 2^-115 and 2^115.
// CHECK-LABEL: func.func @logaddexp
func.func @logaddexp(%x: tensor<8x6xf32> {scalify.scale = 2 : i32}, %possible: tensor<8x6xi1>) -> (tensor<8x6xf32>, tensor<8x6xf32>) {
  %never = stablehlo.constant dense<-1.0e5> : tensor<8x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x6xf32>
  %infinity = stablehlo.constant dense<0x7F800000> : tensor<8x6xf32>
  %b = stablehlo.add %x, %never : tensor<8x6xf32>
  %largest = stablehlo.maximum %x, %b : tensor<8x6xf32>
  %delta = stablehlo.subtract %x, %b : tensor<8x6xf32>
  %isnan = stablehlo.compare NE, %delta, %delta, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
  %plain = stablehlo.add %x, %b : tensor<8x6xf32>
  %distance = stablehlo.abs %delta : tensor<8x6xf32>
  %minus = stablehlo.negate %distance : tensor<8x6xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "exp(-|a - b|): at most 1", scalify.scale = -1 : i32
  %e = stablehlo.exponential %minus : tensor<8x6xf32>
  %tail = stablehlo.log_plus_one %e : tensor<8x6xf32>
  %both = stablehlo.add %largest, %tail : tensor<8x6xf32>
  %sum = stablehlo.select %isnan, %plain, %both : tensor<8x6xi1>, tensor<8x6xf32>
  %isx = stablehlo.compare EQ, %x, %infinity, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
  %own = stablehlo.select %isx, %zero, %x : tensor<8x6xi1>, tensor<8x6xf32>
  %iss = stablehlo.compare EQ, %sum, %infinity, FLOAT : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
  %of = stablehlo.select %iss, %zero, %sum : tensor<8x6xi1>, tensor<8x6xf32>
  %below = stablehlo.subtract %own, %of : tensor<8x6xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "share of logaddexp: at most 1", scalify.scale = -1 : i32
  %share = stablehlo.exponential %below : tensor<8x6xf32>
  return %sum, %share : tensor<8x6xf32>, tensor<8x6xf32>
}

// -----

// Without a logarithm around it the exponential of a distance is any kernel.
// CHECK-LABEL: func.func @kernel
// CHECK-NOT: at most 1
func.func @kernel(%x: tensor<8xf32> {scalify.scale = 2 : i32}, %y: tensor<8xf32> {scalify.scale = 2 : i32}) -> tensor<8xf32> {
  %delta = stablehlo.subtract %x, %y : tensor<8xf32>
  %distance = stablehlo.abs %delta : tensor<8xf32>
  %minus = stablehlo.negate %distance : tensor<8xf32>
  %e = stablehlo.exponential %minus : tensor<8xf32>
  return %e : tensor<8xf32>
}

// -----

// A softplus adds a constant's exponential: its gradient at -4.6 is 2^-6.6.
// CHECK-LABEL: func.func @softplus
// CHECK-NOT: at most 1
// CHECK: stablehlo.subtract
// CHECK: stablehlo.exponential {{.*}}scalify.scale = -7 : i32
func.func @softplus(%x: tensor<64xf32> {scalify.scale = 2 : i32, scalify.moments = array<f64: -4.6, 0.1>}) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<64xf32>
  %largest = stablehlo.maximum %x, %zero : tensor<64xf32>
  %distance = stablehlo.abs %x : tensor<64xf32>
  %minus = stablehlo.negate %distance : tensor<64xf32>
  %e = stablehlo.exponential %minus : tensor<64xf32>
  %tail = stablehlo.log_plus_one %e : tensor<64xf32>
  %sum = stablehlo.add %largest, %tail : tensor<64xf32>
  %below = stablehlo.subtract %x, %sum : tensor<64xf32>
  %share = stablehlo.exponential %below : tensor<64xf32>
  return %share : tensor<64xf32>
}
