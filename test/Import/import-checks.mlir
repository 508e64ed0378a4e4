// RUN: scalify-opt %s --split-input-file --verify-diagnostics --scalify-inline-calls --scalify-import-checks | FileCheck %s

// The only function that no other calls is main; its checks are results.
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<i32> {jax.result_info = "check.0.expect_eq_const"},
// CHECK-SAME: tensor<i32> {jax.result_info = "check.1.expect_close"})
func.func @negation_of_two() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = call @negate(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK: %[[Y:.*]] = stablehlo.negate
  // CHECK: %[[EXPECTED:.*]] = stablehlo.constant dense<[-1.000000e+00, -2.000000e+00]>
  // CHECK: %[[EQ:.*]] = stablehlo.compare EQ, %[[Y]], %[[EXPECTED]], FLOAT
  // CHECK: %[[NAN:.*]] = stablehlo.and
  // CHECK: %[[OK:.*]] = stablehlo.or %[[EQ]], %[[NAN]]
  // CHECK: %[[NE:.*]] = stablehlo.not %[[OK]]
  // CHECK: %[[ONES:.*]] = stablehlo.convert %[[NE]] : (tensor<2xi1>) -> tensor<2xi32>
  // CHECK: %[[COUNT:.*]] = stablehlo.reduce(%[[ONES]]
  check.expect_eq_const %0, dense<[-1.0, -2.0]> : tensor<2xf32>
  // CHECK: stablehlo.bitcast_convert
  stablehlo.custom_call @check.expect_close(%0, %x) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  // CHECK-NOT: check.
  // CHECK: return %[[COUNT]], %{{.*}} : tensor<i32>, tensor<i32>
  return
}
func.func @negate(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main(%c: tensor<i1>, %x: tensor<f32>) {
  "stablehlo.if"(%c) ({
    // expected-error @+1 {{'check.expect_eq' op is inside a region; check values that @main computes outside of loops and branches}}
    check.expect_eq %x, %x : tensor<f32>
    stablehlo.return
  }, {
    stablehlo.return
  }) : (tensor<i1>) -> ()
  return
}

// -----

func.func @main(%x: tensor<2xi32>) {
  // expected-error @+1 {{'check.expect_almost_eq' op compares elements of 'i32' by a distance, which floats have}}
  check.expect_almost_eq %x, %x : tensor<2xi32>
  return
}
