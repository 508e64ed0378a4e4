// A recurrent state that starts far below its bound has room to fill it: 2^-6
// under a bound of 1 gets 2^-4, and a state without a bound gets none.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" | FileCheck %s

// CHECK-LABEL: func.func @bounded
// CHECK:         stablehlo.while
// CHECK:         scalify.carry_scales = array<i64: 0, -4>
func.func @bounded(%x: tensor<8xf32> {scalify.scale = -6 : i32}) -> tensor<8xf32> {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %start = stablehlo.tanh %x : tensor<8xf32>
  %0:2 = "stablehlo.while"(%i0, %start) ({
  ^bb0(%i: tensor<i32>, %h: tensor<8xf32>):
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<8xf32>):
    %next = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.tanh %h : tensor<8xf32>
    stablehlo.return %next, %t : tensor<i32>, tensor<8xf32>
  }) : (tensor<i32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>)
  return %0#1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @unbounded
// CHECK:         scalify.carry_scales = array<i64: 0, -6>
func.func @unbounded(%x: tensor<8xf32> {scalify.scale = -6 : i32}) -> tensor<8xf32> {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %0:2 = "stablehlo.while"(%i0, %x) ({
  ^bb0(%i: tensor<i32>, %h: tensor<8xf32>):
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %h: tensor<8xf32>):
    %next = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.negate %h : tensor<8xf32>
    stablehlo.return %next, %t : tensor<i32>, tensor<8xf32>
  }) : (tensor<i32>, tensor<8xf32>) -> (tensor<i32>, tensor<8xf32>)
  return %0#1 : tensor<8xf32>
}
