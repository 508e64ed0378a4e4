// RUN: scalify-opt %s -split-input-file -verify-diagnostics

// Each tile of a sum over the batch would read all tiles.
plan.program @across {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  %t = plan.temp : memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%t : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  // expected-error @+1 {{shares bytes of operand 0 with other tiles of its group, of which one writes}}
  plan.kernel "reverse" reads(%t : memref<16x64xf32>) writes(%y : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.reverse %a, dims = [0] : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
}

// -----

plan.program @attribute {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  // expected-error @+1 {{has 'plan.tiles' = array<i64: 0, 0>: expected the number of tiles, at least 1, and that of the group}}
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%y : memref<16x64xf32>) attributes {plan.tiles = array<i64: 0, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
}

// -----

plan.program @rows {
  %x = plan.argument 0 : memref<10x64xf32>
  %y = plan.result 0 : memref<10x64xf32>
  // expected-error @+1 {{cannot run in 16 tiles}}
  plan.kernel "negate" reads(%x : memref<10x64xf32>) writes(%y : memref<10x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<10x64xf32>):
    %0 = stablehlo.negate %a : tensor<10x64xf32>
    plan.yield %0 : tensor<10x64xf32>
  }
}

// -----

plan.program @batch {
  %x = plan.argument 0 : memref<4x16x16xf32>
  %y = plan.result 0 : memref<4x16x16xf32>
  // expected-error @+1 {{cannot run in 3 tiles}}
  plan.gemm "dot" %x, %x, %y m 16 n 16 k 16 strides [16, 1] x [16, 1] to [16, 1] offsets [0, 0, 0] batch [4] [256, 256, 256] alpha 1.0 {plan.tiles = array<i64: 3, 0>} : memref<4x16x16xf32>, memref<4x16x16xf32>, memref<4x16x16xf32>
}

// -----

plan.program @apart {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  // expected-error @+1 {{is memory of one tile, and used outside of its group}}
  %t = plan.temp tile of 16 : memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%t : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  plan.copy %t to %y : memref<16x64xf32>, memref<16x64xf32>
}

// -----

plan.program @between {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  %z = plan.result 1 : memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%y : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  %w = plan.result 2 : memref<16x64xf32>
  // expected-error @+1 {{lies between the commands of tile group 0}}
  plan.copy %x to %w : memref<16x64xf32>, memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%z : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
}

// -----

plan.program @share attributes {arena_bytes = 0 : i64, tile_bytes = 512 : i64} {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  // expected-note @+1 {{the other temporary}}
  %t = plan.temp tile of 16 at 0 : memref<16x64xf32>
  // expected-error @+1 {{shares memory with another temporary that is live}}
  %u = plan.temp tile of 16 at 128 : memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%t : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%u : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  plan.kernel "add" reads(%t, %u : memref<16x64xf32>, memref<16x64xf32>) writes(%y : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 0>} {
  ^bb0(%a: tensor<16x64xf32>, %b: tensor<16x64xf32>):
    %0 = stablehlo.add %a, %b : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
}
