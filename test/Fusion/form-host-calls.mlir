// RUN: scalify-opt %s --split-input-file \
// RUN:   --scalify-form-host-calls='callbacks=true fallback=xla' | FileCheck %s
// RUN: scalify-opt %s --split-input-file \
// RUN:   --scalify-form-host-calls='callbacks=true fallback=xla' \
// RUN:   --scalify-outline-loops --scalify-unroll-loops --scalify-order-host-calls | FileCheck %s --check-prefix=ORDER

// A callback has the number that JAX gave it; of two with effects the second follows the first.
// CHECK-LABEL: @callbacks
// ORDER-LABEL: @callbacks
func.func @callbacks(%x: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: plan.invoke "custom_call" %[[X:.*]] callback 2 effects : (tensor<3xf32>) -> ()
  // ORDER: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // ORDER: %[[FIRST:.*]] = plan.invoke "custom_call" %{{.*}} after %[[ZERO]] callback 2 effects
  // ORDER-SAME: (tensor<3xf32>, tensor<i32>) -> tensor<i32>
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true, mhlo.backend_config = {index = 2 : ui64}} : (tensor<3xf32>) -> ()
  // CHECK: %[[Y:.*]] = plan.invoke "custom_call" %[[X]] callback 0 : (tensor<3xf32>) -> tensor<3xf32>
  // ORDER: plan.invoke "custom_call" %{{.*}} callback 0 :
  %y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {mhlo.backend_config = {index = 0 : ui64}} : (tensor<3xf32>) -> tensor<3xf32>
  // ORDER: plan.invoke "custom_call" %{{.*}} after %[[FIRST]] callback 1 effects
  stablehlo.custom_call @xla_ffi_python_cpu_callback(%y) {has_side_effect = true, mhlo.backend_config = {index = 1 : ui64}} : (tensor<3xf32>) -> ()
  return %y : tensor<3xf32>
}

// -----

// A program has what lies between ops that pass each other complex numbers, and constants.
// CHECK-LABEL: @complex
func.func @complex(%x: tensor<4xf32>) -> tensor<3xf32> {
  // CHECK-NOT: complex
  // CHECK: %[[Y:.*]] = plan.invoke "fft" %{{.*}} program "module
  // CHECK-SAME: stablehlo.fft
  // CHECK-SAME: stablehlo.constant
  // CHECK-SAME: stablehlo.multiply
  // CHECK-SAME: stablehlo.real
  // CHECK-SAME: : (tensor<4xf32>) -> tensor<3xf32>
  %two = stablehlo.constant dense<(2.0, 0.0)> : tensor<3xcomplex<f32>>
  %f = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
  %g = stablehlo.multiply %f, %two : tensor<3xcomplex<f32>>
  %r = stablehlo.real %g : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  // CHECK: stablehlo.negate %[[Y]]
  %n = stablehlo.negate %r : tensor<3xf32>
  return %n : tensor<3xf32>
}

// -----

// What lies on a path from one to another goes along; the rest stays.
// CHECK-LABEL: @between
func.func @between(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  // CHECK: %[[SIDE:.*]] = stablehlo.negate
  // CHECK-NEXT: %[[IN:.*]] = plan.invoke "fft" %{{.*}} program
  // CHECK-SAME: stablehlo.exponential
  // CHECK-NEXT: return %[[SIDE]], %[[IN]]
  %a = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
  %b = stablehlo.real %a : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %side = stablehlo.negate %x : tensor<4xf32>
  %c = stablehlo.exponential %b : tensor<3xf32>
  %d = stablehlo.complex %c, %b : tensor<3xcomplex<f32>>
  %e = stablehlo.multiply %d, %a : tensor<3xcomplex<f32>>
  %f = stablehlo.imag %e : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  return %side, %f : tensor<4xf32>, tensor<3xf32>
}

// -----

// A loop of unknown length that calls back: the plan has no order of calls in loops.
// CHECK-LABEL: @loop
func.func @loop(%n: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: plan.invoke "while" %{{.*}}, %{{.*}} program
  // CHECK-SAME: (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.custom_call @xla_ffi_python_cpu_callback(%v) {has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}} : (tensor<4xf32>) -> ()
      %w = stablehlo.add %v, %x : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %w : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}

// -----

// Without effects it is a loop of the plan.
// CHECK-LABEL: @plain
func.func @plain(%n: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  // CHECK: stablehlo.while
  %r = stablehlo.while(%v = %x) : tensor<f32>
    cond {
      %c = stablehlo.compare LT, %v, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w = stablehlo.add %v, %v : tensor<f32>
      stablehlo.return %w : tensor<f32>
    }
  return %r : tensor<f32>
}

// -----

// In a branch that data choose, a call is made where the branch runs, with effects or without.
// ORDER-LABEL: @branch
func.func @branch(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  // ORDER: plan.invoke "custom_call" %{{.*}} when %{{.*}} after %{{.*}} callback 0 effects
  // ORDER: stablehlo.select
  %r = "stablehlo.if"(%p) ({
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}} : (tensor<f32>) -> ()
    stablehlo.return %x : tensor<f32>
  }, {
    %y = stablehlo.negate %x : tensor<f32>
    stablehlo.return %y : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %r : tensor<f32>
}

// ORDER-LABEL: @branch_without_effects
func.func @branch_without_effects(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  // ORDER: %[[Y:.*]] = plan.invoke "custom_call" %{{.*}} when %{{.*}} callback 0 :
  // ORDER: stablehlo.select {{.*}} %[[Y]]
  %r = "stablehlo.if"(%p) ({
    %y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {has_side_effect = false, mhlo.backend_config = {index = 0 : ui64}} : (tensor<f32>) -> tensor<f32>
    stablehlo.return %y : tensor<f32>
  }, {
    stablehlo.return %x : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %r : tensor<f32>
}
