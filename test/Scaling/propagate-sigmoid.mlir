// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// A sigmoid that is written as a quotient, as by JAX, has the scale of
// stablehlo.logistic: of values of 2^3 nearly half are 1, the others 0. The
// moments of the divisor say 2^-3, without a variance.
// CHECK-LABEL: func.func @sigmoid
func.func @sigmoid(%x: tensor<8x4xf32> {scalify.scale = 3 : i32}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
  // CHECK: stablehlo.logistic {{.*}}scalify.scale = -1 : i32
  %given = stablehlo.logistic %x : tensor<8x4xf32>
  %n = stablehlo.negate %x : tensor<8x4xf32>
  %e = stablehlo.exponential %n : tensor<8x4xf32>
  %d = stablehlo.add %one, %e : tensor<8x4xf32>
  // CHECK: stablehlo.divide {{.*}}scalify.rule = "logistic: bounded by 1", scalify.scale = -1 : i32
  %written = stablehlo.divide %one, %d : tensor<8x4xf32>
  return %given, %written : tensor<8x4xf32>, tensor<8x4xf32>
}
