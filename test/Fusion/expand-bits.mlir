// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-expand-bits))' -split-input-file | FileCheck %s

// Four words a block, two blocks, of which the first seven words are taken.
// CHECK-LABEL: func.func @philox
// CHECK-SAME: (%[[STATE:.*]]: tensor<2xui64>)
// CHECK: stablehlo.slice %[[STATE]] [0:1]
// CHECK: stablehlo.slice %[[STATE]] [1:2]
// CHECK: stablehlo.iota dim = 0 {scalify.phase = #scalify.phase<forward>} : tensor<2xui64>
// CHECK-NOT: rng_bit_generator
// CHECK-COUNT-20: stablehlo.multiply {{.*}} : tensor<2xui64>
// CHECK-NOT: stablehlo.multiply
// CHECK: %[[WORDS:.*]] = stablehlo.concatenate {{.*}} -> tensor<2x4xui32>
// CHECK: %[[FLAT:.*]] = stablehlo.reshape %[[WORDS]] {{.*}} -> tensor<8xui32>
// CHECK: stablehlo.slice %[[FLAT]] [0:7]
func.func @philox(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui32>) {
  %n, %b = stablehlo.rng_bit_generator %s, algorithm = PHILOX {scalify.phase = #scalify.phase<forward>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui32>)
  return %n, %b : tensor<2xui64>, tensor<7xui32>
}

// -----

// CHECK-LABEL: func.func @apart
// CHECK: %[[W:.*]] = stablehlo.bitcast_convert %{{.*}} : (tensor<3xf32>) -> tensor<3xui32>
// CHECK: %[[LOW:.*]] = stablehlo.convert %[[W]] : (tensor<3xui32>) -> tensor<3xui16>
// CHECK: %[[UP:.*]] = stablehlo.shift_right_logical %[[W]]
// CHECK: stablehlo.convert %[[UP]] : (tensor<3xui32>) -> tensor<3xui16>
// CHECK: stablehlo.concatenate {{.*}}, dim = 1 : {{.*}} -> tensor<3x2xui16>
// CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<3x2xui16>) -> tensor<3x2xf16>
func.func @apart(%x: tensor<3xf32>) -> tensor<3x2xf16> {
  %y = stablehlo.bitcast_convert %x : (tensor<3xf32>) -> tensor<3x2xf16>
  return %y : tensor<3x2xf16>
}

// -----

// Of one width it is one op already.
// CHECK-LABEL: func.func @same
// CHECK-NEXT: stablehlo.bitcast_convert
func.func @same(%x: tensor<3xf32>) -> tensor<3xi32> {
  %y = stablehlo.bitcast_convert %x : (tensor<3xf32>) -> tensor<3xi32>
  return %y : tensor<3xi32>
}
