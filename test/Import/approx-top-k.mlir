// RUN: scalify-opt %s --scalify-inline-calls -split-input-file -verify-diagnostics | FileCheck %s

// Numbers beside XLA's: test/python/test_expanded_ops.py.

// CHECK-NOT: @greater
// CHECK-LABEL: @main
// CHECK: %[[SORT:.*]]:2 = "stablehlo.sort"(%arg0, %arg1) <{dimension = 1 : i64, is_stable = true}>
// CHECK: stablehlo.compare GT
// CHECK: stablehlo.slice %[[SORT]]#0 [0:3, 0:2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
// CHECK: stablehlo.slice %[[SORT]]#1 [0:3, 0:2] : (tensor<3x4xi32>) -> tensor<3x2xi32>
func.func @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func public @main(%x: tensor<3x4xf32>, %i: tensor<3x4xi32>, %a: tensor<f32>, %b: tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %a, %b) {called_computations = [@greater], mhlo.backend_config = {reduction_dim = 1 : i64, top_k = 2 : i64}} : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

func.func public @main(%x: tensor<4xf32>, %a: tensor<f32>) -> tensor<2xf32> {
  // expected-error @+1 {{'stablehlo.custom_call' op of 'ApproxTopK' needs a 'reduction_dim' and one comparator; use jax.lax.top_k}}
  %0 = stablehlo.custom_call @ApproxTopK(%x, %a) {mhlo.backend_config = {reduction_dim = 0 : i64}} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @main(%x: tensor<3x4xf32>, %a: tensor<f32>) -> tensor<3x5xf32> {
  // expected-error @+1 {{of 'ApproxTopK' has results that are not the first elements of its operands along dimension 1}}
  %0 = stablehlo.custom_call @ApproxTopK(%x, %a) {called_computations = [@greater], mhlo.backend_config = {reduction_dim = 1 : i64}} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

func.func @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @main(%x: tensor<3x4xf32>, %a: tensor<f32>) -> tensor<3x2xf32> {
  // expected-error @+1 {{along dimension 2}}
  %0 = stablehlo.custom_call @ApproxTopK(%x, %a) {called_computations = [@greater], mhlo.backend_config = {reduction_dim = 2 : ui8}} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @greater(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func @main(%x: tensor<3x4xi32>, %a: tensor<i32>) -> tensor<3x2xi32> {
  // expected-error @+1 {{needs a 'reduction_dim' and one comparator}}
  %0 = stablehlo.custom_call @ApproxTopK(%x, %a) {called_computations = [@greater], mhlo.backend_config = {reduction_dim = 1 : i64}} : (tensor<3x4xi32>, tensor<i32>) -> tensor<3x2xi32>
  return %0 : tensor<3x2xi32>
}
