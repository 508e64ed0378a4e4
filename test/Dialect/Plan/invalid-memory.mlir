// RUN: scalify-opt %s -verify-diagnostics -split-input-file

// A shift reads elements that it has written over by then.
plan.program @shifted {
  %a = plan.argument 0 : memref<16xf32>
  %r = plan.result 0 aliases 0 : memref<16xf32>
  // expected-error @+1 {{'plan.kernel' op writes bytes of operand 1 that operand 0 shares, and not element by element}}
  plan.kernel "shift" reads(%a : memref<16xf32>) writes(%r : memref<16xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<16xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<1xf32>
    %s = stablehlo.slice %x [0:15] : (tensor<16xf32>) -> tensor<15xf32>
    %y = stablehlo.concatenate %zero, %s, dim = 0 : (tensor<1xf32>, tensor<15xf32>) -> tensor<16xf32>
    plan.yield %y : tensor<16xf32>
  }
}

// -----

// By element, and a second time in another order.
plan.program @both {
  %a = plan.argument 0 : memref<4x4xf32>
  %r = plan.result 0 aliases 0 : memref<4x4xf32>
  // expected-error @+1 {{writes bytes of operand 1 that operand 0 shares}}
  plan.kernel "symmetric" reads(%a : memref<4x4xf32>) writes(%r : memref<4x4xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<4x4xf32>):
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = stablehlo.add %x, %t : tensor<4x4xf32>
    plan.yield %y : tensor<4x4xf32>
  }
}

// -----

// The scatter's input is the same memory as what its update reads.
plan.program @scatter {
  %a = plan.argument 0 : memref<8xf32>
  %i = plan.constant dense<1> : tensor<1xi32> : memref<1xi32>
  %t = plan.temp : memref<8xf32>
  plan.copy %a to %t : memref<8xf32>, memref<8xf32>
  // expected-error @+1 {{writes bytes of operand 2 that operand 0 shares}}
  plan.kernel "scatter" reads(%t, %i : memref<8xf32>, memref<1xi32>) writes(%t : memref<8xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<8xf32>, %at: tensor<1xi32>):
    %u = stablehlo.slice %x [0:7] : (tensor<8xf32>) -> tensor<7xf32>
    %y = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, indices_are_sorted = true, unique_indices = true}> ({
    ^bb0(%old: tensor<f32>, %new: tensor<f32>):
      stablehlo.return %new : tensor<f32>
    }) : (tensor<8xf32>, tensor<1xi32>, tensor<7xf32>) -> tensor<8xf32>
    plan.yield %y : tensor<8xf32>
  }
}

// -----

// A part of the stack that is written is read as another operand.
plan.program @part {
  %r = plan.result 0 : memref<16xf32>
  %s = plan.temp : memref<2x16xf32>
  %p = plan.temp part of %s : memref<2x16xf32> from 64 : memref<16xf32>
  plan.fill %s with 0 : memref<2x16xf32>
  // expected-error @+1 {{writes bytes of operand 1 that operand 0 shares}}
  plan.kernel "twice" reads(%s : memref<2x16xf32>) writes(%p : memref<16xf32>) {
  ^bb0(%x: tensor<2x16xf32>):
    %a = stablehlo.slice %x [0:1, 0:16] : (tensor<2x16xf32>) -> tensor<1x16xf32>
    %y = stablehlo.reshape %a : (tensor<1x16xf32>) -> tensor<16xf32>
    plan.yield %y : tensor<16xf32>
  }
  plan.copy %p to %r : memref<16xf32>, memref<16xf32>
}

// -----

// A product in the memory of its operand.
plan.program @product attributes {arena_bytes = 64 : i64} {
  %x = plan.argument 0 : memref<4x4xf32>
  %r = plan.result 0 : memref<4x4xf32>
  %a = plan.temp at 0 : memref<4x4xf32>
  plan.copy %x to %a : memref<4x4xf32>, memref<4x4xf32>
  // expected-error @+1 {{'plan.gemm' op writes bytes of operand 2 that operand 0 shares}}
  plan.gemm "dot" %a, %x, %a m 4 n 4 k 4 strides [4, 1] x [4, 1] to [4, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>
  plan.copy %a to %r : memref<4x4xf32>, memref<4x4xf32>
}

// -----

// Rows that are summed end where no loop over the result does: one is summed
// while it is written.
plan.program @rows {
  %a = plan.argument 0 : memref<4x6xf32>
  %r = plan.result 0 aliases 0 : memref<4x6xf32>
  // expected-error @+1 {{writes bytes of operand 1 that operand 0 shares}}
  plan.kernel "rows" reads(%a : memref<4x6xf32>) writes(%r : memref<4x6xf32>) attributes {inplace = array<i64: 0, 0>} {
  ^bb0(%x: tensor<4x6xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %v = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x4xf32>, tensor<f32>) -> tensor<6xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<6xf32>) -> tensor<6x4xf32>
    %d = stablehlo.subtract %v, %b : tensor<6x4xf32>
    %y = stablehlo.reshape %d : (tensor<6x4xf32>) -> tensor<4x6xf32>
    plan.yield %y : tensor<4x6xf32>
  }
}

// -----

// What the arena held before the step is nobody's.
plan.program @unwritten {
  %x = plan.argument 0 : memref<16xf32>
  %r = plan.result 0 : memref<2x16xf32>
  %s = plan.temp : memref<2x16xf32>
  %a = plan.temp part of %s : memref<2x16xf32> from 0 : memref<16xf32>
  plan.copy %x to %a : memref<16xf32>, memref<16xf32>
  // expected-error @+1 {{'plan.copy' op reads operand 0, which no command before it has written}}
  plan.copy %s to %r : memref<2x16xf32>, memref<2x16xf32>
}
