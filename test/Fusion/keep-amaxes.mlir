// RUN: scalify-opt %s --scalify-keep-amaxes --split-input-file --verify-diagnostics | FileCheck %s

// The step takes the amax as an entry, rounded as the elements were, and
// returns that of the new weight; @measure makes it of a weight from elsewhere.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<4x8xf32> {{.*}}, %[[X:[a-z0-9]*]]: tensor<4x8xf32>,
// CHECK-SAME: %[[A:[a-z0-9]*]]: tensor<1xf32> {scalify.name = "scalify.argument_amax", scalify.role = #scalify.role<state>, tf.aliasing_output = 2 : i32})
// CHECK-SAME: -> (tensor<4x8xf32>, tensor<bf16>, tensor<1xf32> {jax.result_info = "scalify.argument_amax"})
// CHECK: %[[E:.*]] = stablehlo.slice %[[A]] [0:1]
// CHECK: %[[AMAX:.*]] = stablehlo.reshape %[[E]] : (tensor<1xf32>) -> tensor<f32>
// CHECK: %[[ROUNDED:.*]] = stablehlo.convert %[[AMAX]] : (tensor<f32>) -> tensor<bf16>
// CHECK-NOT: stablehlo.abs %[[W]]
// CHECK: %[[NEW:.*]] = stablehlo.add %[[W]], %[[X]]
// CHECK: %[[ABS:.*]] = stablehlo.abs %[[NEW]] {scalify.phase = #scalify.phase<optimizer>} : tensor<4x8xf32>
// CHECK: %[[ROWS:.*]] = stablehlo.reduce(%[[ABS]] init:
// CHECK-SAME: stablehlo.maximum
// CHECK-SAME: dimensions = [1]
// CHECK: %[[LEFT:.*]] = stablehlo.reduce(%[[ROWS]] init:
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[LEFT]]
// CHECK: %[[NEXT:.*]] = stablehlo.concatenate %[[ROW]], dim = 0
// CHECK: return %[[NEW]], %[[ROUNDED]], %[[NEXT]]
// CHECK-LABEL: func.func @measure(
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<4x8xf32> {scalify.name = "w", scalify.role = #scalify.role<input>}) -> (tensor<1xf32>
// CHECK: stablehlo.abs %[[W]]
module attributes {scalify.recipe = #scalify.recipe<"fp8-current">} {
  func.func @main(%w: tensor<4x8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32}, %x: tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<bf16>) {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %b = stablehlo.convert %t : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %0 = stablehlo.abs %b : tensor<8x4xbf16>
    %amax = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<8x4xbf16>, tensor<bf16>) -> tensor<bf16>
    %new = stablehlo.add %w, %x {scalify.phase = #scalify.phase<optimizer>} : tensor<4x8xf32>
    return %new, %amax : tensor<4x8xf32>, tensor<bf16>
  }
}

// -----

// Of slices of a stack there is an amax each, of which that of all follows. A
// weight that stays as it is keeps its entry.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W:[a-z0-9]*]]: tensor<3x8xf32> {{.*}}, %[[V:[a-z0-9]*]]: tensor<8xf32> {{.*}}, %[[A:[a-z0-9]*]]: tensor<4xf32> {
// CHECK-DAG: %[[TWO:.*]] = stablehlo.slice %[[A]] [2:3]
// CHECK-DAG: %[[AMAX2:.*]] = stablehlo.reshape %[[TWO]]
// CHECK-DAG: %[[ALL:.*]] = stablehlo.slice %[[A]] [0:3]
// CHECK-DAG: %[[AMAX:.*]] = stablehlo.reduce(%[[ALL]] init
// CHECK-DAG: %[[THREE:.*]] = stablehlo.slice %[[A]] [3:4]
// CHECK-DAG: %[[AMAXV:.*]] = stablehlo.reshape %[[THREE]]
// CHECK: %[[NEW:.*]] = stablehlo.negate %[[W]]
// CHECK: stablehlo.reduce
// CHECK-SAME: dimensions = [1]
// CHECK: %[[NEXT:.*]] = stablehlo.concatenate
// CHECK: return %[[NEW]], %[[V]], %[[AMAX2]], %[[AMAX]], %[[AMAXV]], %[[NEXT]]
module attributes {scalify.recipe = #scalify.recipe<"fp8-current">} {
  func.func @main(%w: tensor<3x8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32},
                  %v: tensor<8xf32> {scalify.name = "v", tf.aliasing_output = 1 : i32})
      -> (tensor<3x8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.slice %w [2:3, 0:8] : (tensor<3x8xf32>) -> tensor<1x8xf32>
    %r = stablehlo.reshape %s : (tensor<1x8xf32>) -> tensor<8xf32>
    %0 = stablehlo.abs %r : tensor<8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.abs %w : tensor<3x8xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<f32>
    %4 = stablehlo.abs %v : tensor<8xf32>
    %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %new = stablehlo.negate %w : tensor<3x8xf32>
    return %new, %v, %1, %3, %5 : tensor<3x8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// Nothing is kept of an argument that is not donated, of a maximum of values
// rather than magnitudes, of a part of a slice, and of one that another
// constant may exceed. What is joined of pieces would be read again.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: scalify.argument_amax
// CHECK-NOT: @measure
module attributes {scalify.recipe = #scalify.recipe<"fp8-current">} {
  func.func @main(%w: tensor<2x8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32}, %x: tensor<8xf32>,
                  %y: tensor<2x8xf32> {scalify.name = "y", tf.aliasing_output = 1 : i32})
      -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = stablehlo.abs %w : tensor<2x8xf32>
    // expected-remark@+1 {{reads 'w' for its amax in each step: no elementwise op of the last step computes its new value}}
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.abs %x : tensor<8xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %4 = stablehlo.reduce(%y init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
    %5 = stablehlo.slice %y [0:2, 0:4] : (tensor<2x8xf32>) -> tensor<2x4xf32>
    %6 = stablehlo.abs %5 : tensor<2x4xf32>
    %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %8 = stablehlo.abs %y : tensor<2x8xf32>
    %9 = stablehlo.reduce(%8 init: %one) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x8xf32>, tensor<f32>) -> tensor<f32>
    %r = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<1x8xf32>
    %new = stablehlo.concatenate %r, %r, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
    %next = stablehlo.negate %y : tensor<2x8xf32>
    return %new, %next, %1, %3, %4, %7, %9 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// An amax is measured by the argument's name, which two have here.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: scalify.argument_amax
module attributes {scalify.recipe = #scalify.recipe<"fp8-current">} {
  func.func @main(%w: tensor<8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32},
                  %v: tensor<8xf32> {scalify.name = "w", tf.aliasing_output = 1 : i32})
      -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.abs %w : tensor<8xf32>
    // expected-remark@+1 {{reads 'w' for its amax in each step: another argument has the same name}}
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %new = stablehlo.negate %w : tensor<8xf32>
    %next = stablehlo.negate %v : tensor<8xf32>
    return %new, %next, %1 : tensor<8xf32>, tensor<8xf32>, tensor<f32>
  }
}

// -----

// Delayed scales do not wait for an amax: the cast takes it as it reads.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: scalify.argument_amax
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
  func.func @main(%w: tensor<8xf32> {scalify.name = "w", tf.aliasing_output = 0 : i32}) -> (tensor<8xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.abs %w : tensor<8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %new = stablehlo.negate %w : tensor<8xf32>
    return %new, %1 : tensor<8xf32>, tensor<f32>
  }
}
