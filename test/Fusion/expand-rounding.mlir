// RUN: scalify-opt %s --scalify-expand-rounding -split-input-file | FileCheck %s

// With F32's exponents, bits below the last place are added and cut off.
// CHECK-LABEL: func.func @bf16
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[S:.*]]: tensor<f32>, %[[STEP:.*]]: tensor<2xui32>)
// CHECK: %[[B:.*]] = stablehlo.bitcast_convert %[[X]] {{.*}}-> tensor<8xi32>
// CHECK: %[[SIGN:.*]] = stablehlo.and %[[B]],
// CHECK: %[[M:.*]] = stablehlo.and %[[B]],
// CHECK: %[[STREAM:.*]] = stablehlo.constant {scalify.in_memory{{.*}}} dense<5> : tensor<i32>
// CHECK: %[[R:.*]] = scalify.random_bits 1 of %[[STEP]], %[[STREAM]] {scalify.phase = #scalify.phase<optimizer>} : tensor<8xi32>
// CHECK: %[[N:.*]] = stablehlo.constant {{.*}}dense<16> : tensor<8xi32>
// CHECK: %[[LOW:.*]] = stablehlo.shift_right_logical %[[R]], %[[N]]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[M]], %[[LOW]]
// CHECK: %[[MASK:.*]] = stablehlo.constant {{.*}}dense<-65536> : tensor<8xi32>
// CHECK: %[[CUT:.*]] = stablehlo.and %[[SUM]], %[[MASK]]
// CHECK: %[[LARGEST:.*]] = stablehlo.constant {{.*}}dense<2139095039> : tensor<8xi32>
// CHECK: %[[FINITE:.*]] = stablehlo.minimum %[[CUT]], %[[LARGEST]]
// CHECK: %[[NUMBER:.*]] = stablehlo.select %{{.*}}, %[[FINITE]], %[[M]]
// CHECK: %[[WORD:.*]] = stablehlo.or %[[NUMBER]], %[[SIGN]]
// CHECK: %[[Y:.*]] = stablehlo.bitcast_convert %[[WORD]]
// CHECK: scalify.quantize %[[Y]], %[[S]] {cast = "c0", scalify.phase = #scalify.phase<optimizer>} : tensor<8xf32> -> tensor<8xbf16>
func.func @bf16(%x: tensor<8xf32>, %s: tensor<f32>, %step: tensor<2xui32>) -> tensor<8xbf16> {
  %q = scalify.quantize %x, %s at %step {cast = "c0", rounding = #scalify.rounding<stochastic>, stream = 11 : i64, scalify.phase = #scalify.phase<optimizer>} : tensor<8xf32> -> tensor<8xbf16>
  return %q : tensor<8xbf16>
}

// -----

// Two casts share what they have in common.
// CHECK-LABEL: func.func @pair
// CHECK-COUNT-1: dense<5> : tensor<i32>
// CHECK-NOT: dense<5> : tensor<i32>
func.func @pair(%x: tensor<8xf32>, %y: tensor<8xf32>, %s: tensor<f32>, %step: tensor<2xui32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %q = scalify.quantize %x, %s at %step {rounding = #scalify.rounding<stochastic>, stream = 10 : i64} : tensor<8xf32> -> tensor<8xbf16>
  %r = scalify.quantize %y, %s at %step {rounding = #scalify.rounding<stochastic>, stream = 11 : i64} : tensor<8xf32> -> tensor<8xbf16>
  return %q, %r : tensor<8xbf16>, tensor<8xbf16>
}

// -----

// A share takes the words of its places in the whole.
// CHECK-LABEL: func.func @share
// CHECK-SAME: %[[FIRST:[a-z0-9]+]]: tensor<i32>)
// CHECK: scalify.random_bits 1 of %{{.*}}, %{{.*}} from %[[FIRST]] {whole = array<i64: 4, 32>} : tensor<4x8xi32>
// CHECK: scalify.quantize %{{[^ ]*}}, %{{[^ ]*}} : tensor<4x8xf32> -> tensor<4x8xf16>
func.func @share(%x: tensor<4x8xf32>, %s: tensor<f32>, %step: tensor<2xui32>, %first: tensor<i32>) -> tensor<4x8xf16> {
  %q = scalify.quantize %x, %s at %step from %first {rounding = #scalify.rounding<stochastic>, stream = 11 : i64, whole = array<i64: 4, 32>} : tensor<4x8xf32> -> tensor<4x8xf16>
  return %q : tensor<4x8xf16>
}

// -----

// Without a step there is nothing to round by, whatever the place.
// CHECK-LABEL: func.func @nearest
// CHECK: scalify.quantize %arg0, %arg1 : tensor<8xf32> -> tensor<8xf16>
func.func @nearest(%x: tensor<8xf32>, %s: tensor<f32>) -> tensor<8xf16> {
  %first = stablehlo.constant dense<8> : tensor<i32>
  %q = scalify.quantize %x, %s from %first {rounding = #scalify.rounding<stochastic>, stream = 11 : i64, whole = array<i64: 32>} : tensor<8xf32> -> tensor<8xf16>
  return %q : tensor<8xf16>
}
