// RUN: scalify-opt %s --scalify-overlap-collectives | FileCheck %s

// A group of tiles and an event may have any number, the largest ones too. The
// pass writes events of its own.
// CHECK-LABEL: plan.program @numbers
// CHECK: plan.kernel "negate"
// CHECK-SAME: plan.tiles = array<i64: 16, 9223372036854775807>
// CHECK: plan.kernel "negate"
// CHECK-SAME: plan.tiles = array<i64: 16, 9223372036854775806>
// CHECK: plan.kernel "negate"
// CHECK-SAME: plan.tiles = array<i64: 16, -9223372036854775808>
plan.program @numbers {
  %x = plan.argument 0 : memref<16x64xf32>
  %y = plan.result 0 : memref<16x64xf32>
  %z = plan.result 1 : memref<16x64xf32>
  %w = plan.result 2 : memref<16x64xf32>
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%y : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 9223372036854775807>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%z : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, 9223372036854775806>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
  plan.kernel "negate" reads(%x : memref<16x64xf32>) writes(%w : memref<16x64xf32>) attributes {plan.tiles = array<i64: 16, -9223372036854775808>} {
  ^bb0(%a: tensor<16x64xf32>):
    %0 = stablehlo.negate %a : tensor<16x64xf32>
    plan.yield %0 : tensor<16x64xf32>
  }
}

// CHECK-LABEL: plan.program @events
// CHECK-NOT: {{record|wait}} 9223372036854775807
// CHECK: plan.collective all_gather
// CHECK-NOT: {{record|wait}} 9223372036854775807
// CHECK: plan.copy
plan.program @events {
  %x = plan.argument 0 : memref<32xf32>
  %r = plan.result 0 : memref<64xf32>
  %all = plan.temp : memref<64xf32>
  plan.record 9223372036854775807 on 0
  plan.wait 9223372036854775807 on 1
  plan.collective all_gather none %x to %all groups dense<[[0, 1]]> : tensor<1x2xi64> : memref<32xf32>, memref<64xf32>
  plan.copy %all to %r : memref<64xf32>, memref<64xf32>
}
