// Guesses about training are rows of a table, and can be left out.
//
// RUN: scalify-opt %s --scalify-measure-arguments --scalify-propagate="remarks=0" | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: scalify-opt %s --scalify-set-priors="use=none" --scalify-measure-arguments --scalify-propagate="remarks=0" | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: scalify-opt %s --scalify-set-priors="use=zero-parameters" --scalify-measure-arguments --scalify-propagate="remarks=0" | FileCheck %s --check-prefixes=CHECK,ZERO
// RUN: not scalify-opt %s --scalify-set-priors="use=rows" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not scalify-compile %s -o /dev/null --scalify-priors=rows 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown prior 'rows': expected none, default or some of zero-parameters, unit-gain, sharp-softmax, bounded-carries, falling-residuals

// A weight that is measured in the step counts as one of gain one, 2^-3 for a
// width of 64, until then.
// CHECK-LABEL: func.func public @main
// ALL-SAME:  scalify.measured = -3
// NONE-SAME: scalify.measured = 0
// ZERO-SAME: scalify.measured = 0
// ALL:  stablehlo.multiply {{.*}}scalify.scale = -6 : i32
// NONE: stablehlo.multiply {{.*}}scalify.scale = 0 : i32
// ZERO: stablehlo.multiply {{.*}}scalify.scale = -6 : i32
func.func public @main(%w: tensor<64x64xf32> {scalify.role = #scalify.role<param>},
                       %gate: tensor<64xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>},
                       %x: tensor<8x64xf32> {scalify.scale = 0 : i32}) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %g = stablehlo.broadcast_in_dim %gate, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  %z = stablehlo.multiply %g, %x : tensor<8x64xf32>
  return %y, %z : tensor<8x64xf32>, tensor<8x64xf32>
}
