// RUN: scalify-opt %s --scalify-canonicalize-stablehlo | FileCheck %s
// RUN: scalify-opt %s --scalify-canonicalize-stablehlo=max-elements=2 | FileCheck %s --check-prefix=SMALL

// That values are those of XLA is the subject of test/python/test_import.py.

// CHECK-LABEL: @splat
// CHECK-NEXT: %[[C:.*]] = stablehlo.constant dense<-3.500000e+00> : tensor<512x512xf32>
// CHECK-NEXT: return %[[C]]
func.func @splat() -> tensor<512x512xf32> {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.convert %two : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
  %half = stablehlo.constant dense<1.5> : tensor<512x512xf32>
  %2 = stablehlo.add %1, %half : tensor<512x512xf32>
  %3 = stablehlo.negate %2 : tensor<512x512xf32>
  return %3 : tensor<512x512xf32>
}

// Moves of a constant that is no splat, up to the limit.
// CHECK-LABEL: @moves
// CHECK-DAG: dense<{{\[}}[1, 3], [2, 4]]> : tensor<2x2xi32>
// CHECK-DAG: dense<[1, 2, 3, 4]> : tensor<4xi32>
// CHECK-DAG: dense<{{\[}}[3, 4]]> : tensor<1x2xi32>
// CHECK-DAG: dense<{{\[}}[3, 4], [1, 2]]> : tensor<2x2xi32>
// CHECK-DAG: dense<{{\[\[}}[1, 2], [3, 4]], {{\[}}[1, 2], [3, 4]]]> : tensor<2x2x2xi32>
// SMALL-LABEL: @moves
// SMALL: stablehlo.transpose
func.func @moves() -> (tensor<2x2xi32>, tensor<4xi32>, tensor<1x2xi32>, tensor<2x2xi32>, tensor<2x2x2xi32>) {
  %c = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %0 = stablehlo.transpose %c, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>
  %1 = stablehlo.reshape %c : (tensor<2x2xi32>) -> tensor<4xi32>
  %2 = stablehlo.slice %c [1:2, 0:2] : (tensor<2x2xi32>) -> tensor<1x2xi32>
  %3 = stablehlo.reverse %c, dims = [0] : tensor<2x2xi32>
  %4 = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<2x2xi32>) -> tensor<2x2x2xi32>
  return %0, %1, %2, %3, %4 : tensor<2x2xi32>, tensor<4xi32>, tensor<1x2xi32>, tensor<2x2xi32>, tensor<2x2x2xi32>
}

// CHECK-LABEL: @integers
// CHECK-DAG: dense<[true, false, false]> : tensor<3xi1>
// CHECK-DAG: dense<[1, 4294967295, 5]> : tensor<3xui32>
// CHECK-DAG: dense<[0, 1, 0]> : tensor<3xi32>
func.func @integers() -> (tensor<3xi1>, tensor<3xui32>, tensor<3xi32>) {
  %a = stablehlo.constant dense<[1, 4294967295, 5]> : tensor<3xui32>
  %b = stablehlo.constant dense<[2, 0, 5]> : tensor<3xui32>
  %0 = stablehlo.compare LT, %a, %b, UNSIGNED : (tensor<3xui32>, tensor<3xui32>) -> tensor<3xi1>
  %1 = stablehlo.or %a, %a : tensor<3xui32>
  %p = stablehlo.constant dense<[false, true, false]> : tensor<3xi1>
  %2 = stablehlo.convert %p : (tensor<3xi1>) -> tensor<3xi32>
  return %0, %1, %2 : tensor<3xi1>, tensor<3xui32>, tensor<3xi32>
}

// Of integers all that has a result: there is no quotient by zero.
// CHECK-LABEL: @quotients
// CHECK-DAG: dense<[-3, 3, -1]> : tensor<3xi32>
// CHECK-DAG: dense<[-1, 1, -2]> : tensor<3xi32>
// CHECK-DAG: dense<[-1, 1, -1]> : tensor<3xi32>
// CHECK-DAG: dense<5> : tensor<i32>
// CHECK: stablehlo.divide
// CHECK: stablehlo.remainder
func.func @quotients() -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<3xi32>, tensor<3xi32>) {
  %a = stablehlo.constant dense<[-7, 7, -5]> : tensor<3xi32>
  %b = stablehlo.constant dense<[2, 2, 3]> : tensor<3xi32>
  %z = stablehlo.constant dense<[2, 0, 3]> : tensor<3xi32>
  %0 = stablehlo.divide %a, %b : tensor<3xi32>
  %1 = stablehlo.remainder %a, %b : tensor<3xi32>
  %2 = stablehlo.sign %a : tensor<3xi32>
  %low = stablehlo.constant dense<0> : tensor<i32>
  %high = stablehlo.constant dense<5> : tensor<i32>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  %3 = stablehlo.clamp %low, %nine, %high : tensor<i32>
  %4 = stablehlo.divide %a, %z : tensor<3xi32>
  %5 = stablehlo.remainder %a, %z : tensor<3xi32>
  return %0, %1, %2, %3, %4, %5 : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<3xi32>, tensor<3xi32>
}

// What IEEE does not define to the last bit, or targets define apart, stays.
// CHECK-LABEL: @kept
// CHECK: stablehlo.exponential
// CHECK: stablehlo.convert {{.*}} tensor<f8E4M3FN>
// CHECK: stablehlo.convert {{.*}} tensor<i8>
func.func @kept() -> (tensor<f32>, tensor<f8E4M3FN>, tensor<i8>) {
  %c = stablehlo.constant dense<1000.0> : tensor<f32>
  %0 = stablehlo.exponential %c : tensor<f32>
  %1 = stablehlo.convert %c : (tensor<f32>) -> tensor<f8E4M3FN>
  %2 = stablehlo.convert %c : (tensor<f32>) -> tensor<i8>
  return %0, %1, %2 : tensor<f32>, tensor<f8E4M3FN>, tensor<i8>
}

// An iota, and the mask it makes, are never written out.
// CHECK-LABEL: @mask
// CHECK-COUNT-2: stablehlo.iota
// CHECK: stablehlo.compare GE
func.func @mask() -> tensor<8x8xi1> {
  %0 = stablehlo.iota dim = 0 : tensor<8x8xi32>
  %1 = stablehlo.iota dim = 1 : tensor<8x8xi32>
  %2 = stablehlo.compare GE, %0, %1, SIGNED : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi1>
  return %2 : tensor<8x8xi1>
}

// What has no elements is a constant, whatever computes it: indices of a
// scatter that overwrites all of its operand, and tests of their bounds.
// CHECK-LABEL: func @no_elements
func.func @no_elements(%x: tensor<0xf32>) -> (tensor<0xi1>, tensor<0xf32>) {
  %c = stablehlo.constant dense<> : tensor<0xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<i32>) -> tensor<0xi32>
  %1 = stablehlo.compare GE, %c, %0, SIGNED : (tensor<0xi32>, tensor<0xi32>) -> tensor<0xi1>
  %2 = stablehlo.exponential %x : tensor<0xf32>
  // CHECK-DAG: %[[NO_BOOLS:.*]] = stablehlo.constant dense<> : tensor<0xi1>
  // CHECK-DAG: %[[NO_FLOATS:.*]] = stablehlo.constant dense<> : tensor<0xf32>
  // CHECK: return %[[NO_BOOLS]], %[[NO_FLOATS]]
  return %1, %2 : tensor<0xi1>, tensor<0xf32>
}
