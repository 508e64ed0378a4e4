// RUN: scalify-opt %s --scalify-canonicalize-stablehlo | FileCheck %s --check-prefixes=CHECK,FREE
// RUN: scalify-opt %s --scalify-canonicalize-stablehlo=signed-zeros=true | FileCheck %s --check-prefixes=CHECK,SIGNED

// CHECK-LABEL: @neutral
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]]
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %minus = stablehlo.constant dense<-0.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %ones : tensor<4xf32>
  %1 = stablehlo.add %minus, %x : tensor<4xf32>
  %2 = stablehlo.subtract %x, %zero : tensor<4xf32>
  %3 = stablehlo.divide %x, %ones : tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -0 + 0 is +0: only the sign of a zero is at stake.
// CHECK-LABEL: @positive_zero
// FREE-NEXT: return %arg0
// SIGNED: stablehlo.add
func.func @positive_zero(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.add %x, %zero : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// NaN * 0 is NaN, and inf - inf too.
// CHECK-LABEL: @not_neutral
// CHECK: stablehlo.multiply
// CHECK: stablehlo.subtract
func.func @not_neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %zero : tensor<4xf32>
  %1 = stablehlo.subtract %x, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: @integers
// CHECK-NEXT: return %arg0, %arg0, %arg0
func.func @integers(%x: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<4xi32>
  %ones = stablehlo.constant dense<-1> : tensor<4xi32>
  %0 = stablehlo.add %x, %zero : tensor<4xi32>
  %1 = stablehlo.and %x, %ones : tensor<4xi32>
  %2 = stablehlo.or %zero, %x : tensor<4xi32>
  return %0, %1, %2 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}

// CHECK-LABEL: @select
// CHECK-SAME: (%[[P:.*]]: tensor<4xi1>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[A]], %[[B]], %[[A]]
func.func @select(%p: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %true = stablehlo.constant dense<true> : tensor<4xi1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.select %true, %a, %b : tensor<4xi1>, tensor<4xf32>
  %1 = stablehlo.select %false, %a, %b : tensor<i1>, tensor<4xf32>
  %2 = stablehlo.select %p, %a, %a : tensor<4xi1>, tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Widening and back is nothing; narrowing and back rounds.
// CHECK-LABEL: @convert
// CHECK-SAME: (%[[X:.*]]: tensor<4xbf16>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT: %[[N:.*]] = stablehlo.convert %[[Y]] : (tensor<4xf32>) -> tensor<4xbf16>
// CHECK-NEXT: %[[W:.*]] = stablehlo.convert %[[N]]
// CHECK-NEXT: return %[[X]], %[[W]], %[[Y]]
func.func @convert(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.convert %x : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = stablehlo.convert %y : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = stablehlo.convert %2 : (tensor<4xbf16>) -> tensor<4xf32>
  %4 = stablehlo.convert %y : tensor<4xf32>
  return %1, %3, %4 : tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>
}

// f16 to bf16 loses mantissa, bf16 to f16 range.
// CHECK-LABEL: @convert_between_halves
// CHECK-COUNT-2: stablehlo.convert
func.func @convert_between_halves(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = stablehlo.convert %x : (tensor<4xf16>) -> tensor<4xbf16>
  %1 = stablehlo.convert %0 : (tensor<4xbf16>) -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// CHECK-LABEL: @reduce_precision
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xbf16>)
// CHECK-NEXT: %[[R:.*]] = stablehlo.reduce_precision %[[X]], format = e8m7
// CHECK-NEXT: return %[[X]], %[[Y]], %[[R]]
func.func @reduce_precision(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>) {
  %0 = stablehlo.reduce_precision %x, format = e8m23 : tensor<4xf32>
  %1 = stablehlo.reduce_precision %y, format = e8m7 : tensor<4xbf16>
  %2 = stablehlo.reduce_precision %x, format = e8m7 : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>
}

// CHECK-LABEL: @involutions
// CHECK-NEXT: return %arg0, %arg1
func.func @involutions(%x: tensor<4xf32>, %p: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  %2 = stablehlo.not %p : tensor<4xi1>
  %3 = stablehlo.not %2 : tensor<4xi1>
  return %1, %3 : tensor<4xf32>, tensor<4xi1>
}

// Equal ops merge, also with regions; a barrier keeps copies apart.
// CHECK-LABEL: @merge
// CHECK-COUNT-1: stablehlo.reduce(
// CHECK-NOT: stablehlo.reduce(
// CHECK: stablehlo.exponential
// CHECK: stablehlo.optimization_barrier
// CHECK: stablehlo.exponential
func.func @merge(%x: tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %z2 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%x init: %z2) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %2 = stablehlo.exponential %x : tensor<4xf32>
  %3 = stablehlo.optimization_barrier %x : tensor<4xf32>
  %4 = stablehlo.exponential %3 : tensor<4xf32>
  return %0, %1, %2, %4 : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
