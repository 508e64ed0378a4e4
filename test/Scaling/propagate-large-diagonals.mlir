// RUN: scalify-opt %s --scalify-propagate="remarks=0" --split-input-file | FileCheck %s

// A large constant in a share of the elements is a mask if an exponential or an
// extremum reads it, and data if a product does: a sum with a prior covariance
// of 1e4 has the size of its diagonal, 1e4 / sqrt(32), nearest to 2^11.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.add {{.*}}scalify.scale = 11
// CHECK: stablehlo.dot_general {{.*}}scalify.scale = 13
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<8x32xf32> {scalify.scale = 0 : i32}, %r: tensor<32x32xf32> {scalify.scale = 0 : i32}) -> tensor<8x32xf32> {
  %prior = stablehlo.constant dense<1.0e+04> : tensor<32x32xf32>
  %i = stablehlo.iota dim = 0 : tensor<32x32xi32>
  %j = stablehlo.iota dim = 1 : tensor<32x32xi32>
  %same = stablehlo.compare EQ, %i, %j, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
  %eye = stablehlo.convert %same : (tensor<32x32xi1>) -> tensor<32x32xf32>
  %diagonal = stablehlo.multiply %eye, %prior : tensor<32x32xf32>
  %a = stablehlo.add %diagonal, %r : tensor<32x32xf32>
  %y = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}
}

// -----

// The same by a select, through the carry of a loop.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.select {{.*}}scalify.scale = 11
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%f: tensor<32x32xf32> {scalify.scale = -3 : i32}) -> tensor<32x32xf32> {
  %prior = stablehlo.constant dense<1.0e+04> : tensor<32x32xf32>
  %none = stablehlo.constant dense<0.0> : tensor<32x32xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %i = stablehlo.iota dim = 0 : tensor<32x32xi32>
  %j = stablehlo.iota dim = 1 : tensor<32x32xi32>
  %same = stablehlo.compare EQ, %i, %j, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
  %p = stablehlo.select %same, %prior, %none : tensor<32x32xi1>, tensor<32x32xf32>
  %0:2 = stablehlo.while(%k = %zero, %v = %p) : tensor<i32>, tensor<32x32xf32>
  cond {
    %c = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %f, %v, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %l = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %l, %d : tensor<i32>, tensor<32x32xf32>
  }
  return %0#1 : tensor<32x32xf32>
}
}

// -----

// Scores that an exponential reads keep their size beside the mask, although a
// product reads the exponential.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.add {{.*}}scalify.scale = 0
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%s: tensor<32x32xf32> {scalify.scale = 0 : i32}, %v: tensor<32x8xf32> {scalify.scale = 0 : i32}) -> tensor<32x8xf32> {
  %large = stablehlo.constant dense<-1.0e+04> : tensor<32x32xf32>
  %i = stablehlo.iota dim = 0 : tensor<32x32xi32>
  %j = stablehlo.iota dim = 1 : tensor<32x32xi32>
  %later = stablehlo.compare LT, %i, %j, SIGNED : (tensor<32x32xi32>, tensor<32x32xi32>) -> tensor<32x32xi1>
  %m = stablehlo.convert %later : (tensor<32x32xi1>) -> tensor<32x32xf32>
  %mask = stablehlo.multiply %m, %large : tensor<32x32xf32>
  %a = stablehlo.add %s, %mask : tensor<32x32xf32>
  %e = stablehlo.exponential %a : tensor<32x32xf32>
  %y = stablehlo.dot_general %e, %v, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  return %y : tensor<32x8xf32>
}
}
