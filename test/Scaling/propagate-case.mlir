// Branches meet at the middle of their exponents; a zero adopts its partner's.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @meet
// CHECK:         "stablehlo.case"
// CHECK:         scalify.carry_scales = array<i64: -2>
func.func @meet(%i: tensor<i32>, %a: tensor<8xf32> {scalify.scale = 2 : i32}, %b: tensor<8xf32> {scalify.scale = -6 : i32}) -> tensor<8xf32> {
  %r = "stablehlo.case"(%i) ({
    %0 = stablehlo.negate %a : tensor<8xf32>
    stablehlo.return %0 : tensor<8xf32>
  }, {
    %0 = stablehlo.negate %b : tensor<8xf32>
    stablehlo.return %0 : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// CHECK-LABEL: func.func @zero
// CHECK:         "stablehlo.if"
// CHECK:         scalify.carry_scales = array<i64: -6>
func.func @zero(%p: tensor<i1>, %b: tensor<8xf32> {scalify.scale = -6 : i32}) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r = "stablehlo.if"(%p) ({
    stablehlo.return %b : tensor<8xf32>
  }, {
    stablehlo.return %zero : tensor<8xf32>
  }) : (tensor<i1>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
