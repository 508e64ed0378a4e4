// RUN: scalify-opt %s | FileCheck %s

// Unary, binary and ternary ops in the forms that JAX prints.

// CHECK-LABEL: func.func @unary_float
func.func @unary_float(%a: tensor<4xf32>) {
  // CHECK: stablehlo.ceil %{{.*}} : tensor<4xf32>
  %0 = stablehlo.ceil %a : tensor<4xf32>
  // CHECK: stablehlo.floor %{{.*}} : tensor<4xf32>
  %1 = stablehlo.floor %a : tensor<4xf32>
  // CHECK: stablehlo.round_nearest_afz %{{.*}} : tensor<4xf32>
  %2 = stablehlo.round_nearest_afz %a : tensor<4xf32>
  // CHECK: stablehlo.round_nearest_even %{{.*}} : tensor<4xf32>
  %3 = stablehlo.round_nearest_even %a : tensor<4xf32>
  // CHECK: stablehlo.negate %{{.*}} : tensor<4xf32>
  %4 = stablehlo.negate %a : tensor<4xf32>
  // CHECK: stablehlo.sign %{{.*}} : tensor<4xf32>
  %5 = stablehlo.sign %a : tensor<4xf32>
  // CHECK: stablehlo.abs %{{.*}} : tensor<4xf32>
  %6 = stablehlo.abs %a : tensor<4xf32>
  // CHECK: stablehlo.cbrt %{{.*}} : tensor<4xf32>
  %7 = stablehlo.cbrt %a : tensor<4xf32>
  // CHECK: stablehlo.cosine %{{.*}} : tensor<4xf32>
  %8 = stablehlo.cosine %a : tensor<4xf32>
  // CHECK: stablehlo.exponential %{{.*}} : tensor<4xf32>
  %9 = stablehlo.exponential %a : tensor<4xf32>
  // CHECK: stablehlo.exponential_minus_one %{{.*}} : tensor<4xf32>
  %10 = stablehlo.exponential_minus_one %a : tensor<4xf32>
  // CHECK: stablehlo.log %{{.*}} : tensor<4xf32>
  %11 = stablehlo.log %a : tensor<4xf32>
  // CHECK: stablehlo.log_plus_one %{{.*}} : tensor<4xf32>
  %12 = stablehlo.log_plus_one %a : tensor<4xf32>
  // CHECK: stablehlo.logistic %{{.*}} : tensor<4xf32>
  %13 = stablehlo.logistic %a : tensor<4xf32>
  // CHECK: stablehlo.rsqrt %{{.*}} : tensor<4xf32>
  %14 = stablehlo.rsqrt %a : tensor<4xf32>
  // CHECK: stablehlo.sine %{{.*}} : tensor<4xf32>
  %15 = stablehlo.sine %a : tensor<4xf32>
  // CHECK: stablehlo.sqrt %{{.*}} : tensor<4xf32>
  %16 = stablehlo.sqrt %a : tensor<4xf32>
  // CHECK: stablehlo.tan %{{.*}} : tensor<4xf32>
  %17 = stablehlo.tan %a : tensor<4xf32>
  // CHECK: stablehlo.tanh %{{.*}} : tensor<4xf32>
  %18 = stablehlo.tanh %a : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @unary_integer
func.func @unary_integer(%a: tensor<4xi32>, %p: tensor<4xi1>) {
  // CHECK: stablehlo.abs %{{.*}} : tensor<4xi32>
  %0 = stablehlo.abs %a : tensor<4xi32>
  // CHECK: stablehlo.count_leading_zeros %{{.*}} : tensor<4xi32>
  %1 = stablehlo.count_leading_zeros %a : tensor<4xi32>
  // CHECK: stablehlo.popcnt %{{.*}} : tensor<4xi32>
  %2 = stablehlo.popcnt %a : tensor<4xi32>
  // CHECK: stablehlo.not %{{.*}} : tensor<4xi32>
  %3 = stablehlo.not %a : tensor<4xi32>
  // CHECK: stablehlo.not %{{.*}} : tensor<4xi1>
  %4 = stablehlo.not %p : tensor<4xi1>
  // CHECK: stablehlo.sign %{{.*}} : tensor<4xi32>
  %5 = stablehlo.sign %a : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @unary_complex
func.func @unary_complex(%z: tensor<4xcomplex<f32>>, %x: tensor<4xf32>) {
  // CHECK: stablehlo.abs %{{.*}} : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %0 = stablehlo.abs %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  // CHECK: stablehlo.real %{{.*}} : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %1 = stablehlo.real %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  // CHECK: stablehlo.imag %{{.*}} : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  %2 = stablehlo.imag %z : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  // CHECK: stablehlo.real %{{.*}} : tensor<4xf32>
  %3 = stablehlo.real %x : tensor<4xf32>
  // CHECK: stablehlo.complex %{{.*}}, %{{.*}} : tensor<4xcomplex<f32>>
  %4 = stablehlo.complex %x, %x : tensor<4xcomplex<f32>>
  // CHECK: stablehlo.exponential %{{.*}} : tensor<4xcomplex<f32>>
  %5 = stablehlo.exponential %z : tensor<4xcomplex<f32>>
  return
}

// CHECK-LABEL: func.func @conversions
func.func @conversions(%a: tensor<4xf32>, %s: tensor<f32>) {
  // CHECK: stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
  %0 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK: stablehlo.convert %{{.*}} : tensor<f32>
  %1 = stablehlo.convert %s : tensor<f32>
  // CHECK: stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  %2 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  // CHECK: stablehlo.is_finite %{{.*}} : (tensor<4xf32>) -> tensor<4xi1>
  %3 = stablehlo.is_finite %a : (tensor<4xf32>) -> tensor<4xi1>
  // CHECK: stablehlo.reduce_precision %{{.*}}, format = e8m7 : tensor<4xf32>
  %4 = stablehlo.reduce_precision %a, format = e8m7 : tensor<4xf32>
  // CHECK: stablehlo.reduce_precision %{{.*}}, format = e5m0 : tensor<4xf32>
  %5 = stablehlo.reduce_precision %a, format = e5m0 : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @accuracy
func.func @accuracy(%a: tensor<4xf32>) {
  // CHECK: stablehlo.exponential %{{.*}} {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
  %0 = stablehlo.exponential %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
  // CHECK: stablehlo.tanh %{{.*}} {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  %1 = stablehlo.tanh %a {result_accuracy = #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
  // CHECK: stablehlo.log %{{.*}} : tensor<4xf32>
  %2 = stablehlo.log %a {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>} : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @binary_float
func.func @binary_float(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  // CHECK: stablehlo.subtract %{{.*}}, %{{.*}} : tensor<4xf32>
  %1 = stablehlo.subtract %a, %b : tensor<4xf32>
  // CHECK: stablehlo.multiply %{{.*}}, %{{.*}} : tensor<4xf32>
  %2 = stablehlo.multiply %a, %b : tensor<4xf32>
  // CHECK: stablehlo.divide %{{.*}}, %{{.*}} : tensor<4xf32>
  %3 = stablehlo.divide %a, %b : tensor<4xf32>
  // CHECK: stablehlo.maximum %{{.*}}, %{{.*}} : tensor<4xf32>
  %4 = stablehlo.maximum %a, %b : tensor<4xf32>
  // CHECK: stablehlo.minimum %{{.*}}, %{{.*}} : tensor<4xf32>
  %5 = stablehlo.minimum %a, %b : tensor<4xf32>
  // CHECK: stablehlo.power %{{.*}}, %{{.*}} : tensor<4xf32>
  %6 = stablehlo.power %a, %b : tensor<4xf32>
  // CHECK: stablehlo.remainder %{{.*}}, %{{.*}} : tensor<4xf32>
  %7 = stablehlo.remainder %a, %b : tensor<4xf32>
  // CHECK: stablehlo.atan2 %{{.*}}, %{{.*}} : tensor<4xf32>
  %8 = stablehlo.atan2 %a, %b : tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @binary_integer
func.func @binary_integer(%a: tensor<4xi32>, %b: tensor<4xi32>) {
  // CHECK: stablehlo.and %{{.*}}, %{{.*}} : tensor<4xi32>
  %0 = stablehlo.and %a, %b : tensor<4xi32>
  // CHECK: stablehlo.or %{{.*}}, %{{.*}} : tensor<4xi32>
  %1 = stablehlo.or %a, %b : tensor<4xi32>
  // CHECK: stablehlo.xor %{{.*}}, %{{.*}} : tensor<4xi32>
  %2 = stablehlo.xor %a, %b : tensor<4xi32>
  // CHECK: stablehlo.shift_left %{{.*}}, %{{.*}} : tensor<4xi32>
  %3 = stablehlo.shift_left %a, %b : tensor<4xi32>
  // CHECK: stablehlo.shift_right_arithmetic %{{.*}}, %{{.*}} : tensor<4xi32>
  %4 = stablehlo.shift_right_arithmetic %a, %b : tensor<4xi32>
  // CHECK: stablehlo.shift_right_logical %{{.*}}, %{{.*}} : tensor<4xi32>
  %5 = stablehlo.shift_right_logical %a, %b : tensor<4xi32>
  // CHECK: stablehlo.remainder %{{.*}}, %{{.*}} : tensor<4xi32>
  %6 = stablehlo.remainder %a, %b : tensor<4xi32>
  // CHECK: stablehlo.maximum %{{.*}}, %{{.*}} : tensor<4xi32>
  %7 = stablehlo.maximum %a, %b : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @dynamic_shapes
func.func @dynamic_shapes(%a: tensor<?xf32>, %b: tensor<4xf32>) {
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = stablehlo.add %a, %b : (tensor<?xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
  %1 = stablehlo.add %a, %b : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xf32>
  return
}

// CHECK-LABEL: func.func @compare
func.func @compare(%a: tensor<4xf32>, %i: tensor<4xi32>, %u: tensor<4xui32>) {
  // CHECK: stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %0 = stablehlo.compare LT, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // CHECK: stablehlo.compare GE, %{{.*}}, %{{.*}}, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = stablehlo.compare GE, %a, %a, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // CHECK: stablehlo.compare EQ, %{{.*}}, %{{.*}}, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %2 = stablehlo.compare EQ, %i, %i, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  // CHECK: stablehlo.compare NE, %{{.*}}, %{{.*}}, UNSIGNED : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>
  %3 = stablehlo.compare NE, %u, %u, UNSIGNED : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>
  // CHECK: stablehlo.compare GT, %{{.*}}, %{{.*}}, FLOAT {mhlo.x = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %4 = stablehlo.compare GT, %a, %a, FLOAT {mhlo.x = 1 : i32} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// CHECK-LABEL: func.func @ternary
func.func @ternary(%p: tensor<4xi1>, %q: tensor<i1>, %a: tensor<4xf32>, %s: tensor<f32>, %d: tensor<?xf32>) {
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf32>
  %0 = stablehlo.select %p, %a, %a : tensor<4xi1>, tensor<4xf32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<4xf32>
  %1 = stablehlo.select %q, %a, %a : tensor<i1>, tensor<4xf32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<i1>, tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
  %2 = stablehlo.select %q, %a, %d : (tensor<i1>, tensor<4xf32>, tensor<?xf32>) -> tensor<4xf32>
  // CHECK: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf32>
  %3 = stablehlo.clamp %a, %a, %a : tensor<4xf32>
  // CHECK: stablehlo.clamp %{{.*}}, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %4 = stablehlo.clamp %s, %a, %s : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @generic_forms
func.func @generic_forms(%a: tensor<4xf32>) {
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
  %0 = "stablehlo.add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: stablehlo.compare LT, %{{.*}}, %{{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = "stablehlo.compare"(%a, %a) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // CHECK: stablehlo.reduce_precision %{{.*}}, format = e5m2 : tensor<4xf32>
  %2 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 2 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}
