// RUN: scalify-opt %s | FileCheck %s

// The client-level ops in the forms that JAX prints.

// CHECK-LABEL: func.func @unary
func.func @unary(%a: tensor<4xf32>, %z: tensor<4xcomplex<f32>>) {
  // CHECK: chlo.acos %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %0 = chlo.acos %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.acosh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %1 = chlo.acosh %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.asin %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %2 = chlo.asin %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.asinh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %3 = chlo.asinh %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.atan %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %4 = chlo.atan %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.atanh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %5 = chlo.atanh %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.bessel_i1e %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %6 = chlo.bessel_i1e %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.cosh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %7 = chlo.cosh %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.digamma %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %8 = chlo.digamma %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.erf %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %9 = chlo.erf %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.erf_inv %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %10 = chlo.erf_inv %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.erfc %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %11 = chlo.erfc %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.lgamma %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %12 = chlo.lgamma %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.sinh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %13 = chlo.sinh %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.square %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %14 = chlo.square %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.tan %{{.*}} : tensor<4xf32> -> tensor<4xf32>
  %15 = chlo.tan %a : tensor<4xf32> -> tensor<4xf32>
  // CHECK: chlo.conj %{{.*}} : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
  %20 = chlo.conj %z : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
  // CHECK: chlo.is_inf %{{.*}} : tensor<4xf32> -> tensor<4xi1>
  %21 = chlo.is_inf %a : tensor<4xf32> -> tensor<4xi1>
  // CHECK: chlo.is_neg_inf %{{.*}} : tensor<4xf32> -> tensor<4xi1>
  %22 = chlo.is_neg_inf %a : tensor<4xf32> -> tensor<4xi1>
  // CHECK: chlo.is_pos_inf %{{.*}} : tensor<4xf32> -> tensor<4xi1>
  %23 = chlo.is_pos_inf %a : tensor<4xf32> -> tensor<4xi1>
  return
}

// CHECK-LABEL: func.func @others
func.func @others(%a: tensor<4x6xf32>, %b: tensor<6xf32>, %x: tensor<8x4xf32>, %w: tensor<3x4x5xf32>, %n: tensor<3xi32>, %p: tensor<6xi1>) {
  // CHECK: chlo.top_k(%{{.*}}, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %values, %indices = chlo.top_k(%a, k = 2) : tensor<4x6xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  // CHECK: chlo.next_after %{{.*}}, %{{.*}} : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  %0 = chlo.next_after %a, %a : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  // CHECK: chlo.mulhi %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  %high = chlo.mulhi %n, %n : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  // CHECK: chlo.zeta %{{.*}}, %{{.*}} : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
  %1 = chlo.zeta %b, %b : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
  // CHECK: chlo.broadcast_add %{{.*}}, %{{.*}} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %2 = chlo.broadcast_add %a, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: chlo.broadcast_select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<6xi1>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %chosen = chlo.broadcast_select %p, %a, %b : (tensor<6xi1>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: chlo.constant dense<1.000000e+00> : tensor<f32>
  %3 = chlo.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: "chlo.ragged_dot"(%{{.*}}, %{{.*}}, %{{.*}}) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGH>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>
  %4 = "chlo.ragged_dot"(%x, %w, %n) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGH>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<8x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<8x5xf32>
  return
}
