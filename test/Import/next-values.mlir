// RUN: scalify-opt %s --scalify-annotate-roles -split-input-file | FileCheck %s

// Nothing is donated, and all arguments have one type. The nearest argument is
// updated; a moment that keeps its gradient at zero and a weight that comes back
// unchanged are state; what no result updates is data.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.name = "x", scalify.role = #scalify.role<batch>
// CHECK-SAME: scalify.name = "p['a']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "p['b']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "m['a']", scalify.role = #scalify.role<moment>
// CHECK-SAME: scalify.name = "m['b']", scalify.role = #scalify.role<moment>
// CHECK-SAME: scalify.name = "y", scalify.role = #scalify.role<batch>
func.func public @main(
    %x: tensor<4x4xf32> {scalify.name = "x"},
    %a: tensor<4x4xf32> {scalify.name = "p['a']"}, %b: tensor<4x4xf32> {scalify.name = "p['b']"},
    %ma: tensor<4x4xf32> {scalify.name = "m['a']"}, %mb: tensor<4x4xf32> {scalify.name = "m['b']"},
    %y: tensor<4x4xf32> {scalify.name = "y"})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %o = stablehlo.dot_general %h, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // A residual is no new value of the labels, nor is a gradient beside an update.
  %d = stablehlo.subtract %o, %y {scalify.phase = #scalify.phase<forward>} : tensor<4x4xf32>
  %s = stablehlo.sine %d {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %g = stablehlo.dot_general %h, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %mb1 = stablehlo.add %mb, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  %b1 = stablehlo.subtract %b, %mb1 {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  %ma1 = stablehlo.negate %ma {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  return %ma1, %mb1, %a, %b1, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// The next value of a narrow weight is its converted master. State that the step
// overwrites has its position in its tree.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.name = "w", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "s.master", scalify.role = #scalify.role<master>
// CHECK-SAME: scalify.name = "s.last", scalify.role = #scalify.role<moment>
// CHECK-SAME: scalify.name = "x", scalify.role = #scalify.role<batch>
func.func public @main(
    %w: tensor<4x4xbf16> {scalify.name = "w"}, %m: tensor<4x4xf32> {scalify.name = "s.master"},
    %l: tensor<4x4xf32> {scalify.name = "s.last"}, %x: tensor<4x4xbf16> {scalify.name = "x"})
    -> (tensor<4x4xbf16> {jax.result_info = "result[0]"},
        tensor<4x4xf32> {jax.result_info = "result[1].last"},
        tensor<4x4xf32> {jax.result_info = "result[1].master"}) {
  %o = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>
  %s = stablehlo.sine %o {scalify.phase = #scalify.phase<backward>} : tensor<4x4xf32>
  %g = stablehlo.dot_general %x, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xbf16>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m1 = stablehlo.subtract %m, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x4xf32>
  %w1 = stablehlo.convert %m1 {scalify.phase = #scalify.phase<optimizer>} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
  return %w1, %g, %m1 : tensor<4x4xbf16>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A frozen weight in a tree of trained ones, merged with a product of these.
// CHECK-LABEL: @main
// CHECK-SAME: scalify.name = "p['frozen']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "p['l']", scalify.role = #scalify.role<param>
// CHECK-SAME: scalify.name = "batch", scalify.role = #scalify.role<batch>
func.func public @main(
    %f: tensor<4x4xf32> {scalify.name = "p['frozen']"}, %l: tensor<4x2xf32> {scalify.name = "p['l']"},
    %x: tensor<8x4xf32> {scalify.name = "batch"}) -> tensor<4x2xf32> {
  %ll = stablehlo.dot_general %l, %l, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %w = stablehlo.add %f, %ll {scalify.phase = #scalify.phase<forward>} : tensor<4x4xf32>
  %o = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %s = stablehlo.sine %o {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32>
  %g = stablehlo.dot_general %x, %s, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %dl = stablehlo.dot_general %g, %l, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %l1 = stablehlo.subtract %l, %dl {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
  return %l1 : tensor<4x2xf32>
}
