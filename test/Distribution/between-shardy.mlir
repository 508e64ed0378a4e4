// RUN: scalify-opt %s --scalify-between-shardy | FileCheck %s

// A shift by one token: 7 tokens in 2 shards are made whole first, so nothing
// shards the result again; the next op is resharded by Shardy.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @shift
func.func @shift(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<7xf32> {
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %arg0 <@mesh, [{}]>
  // CHECK: %[[SHIFTED:.*]] = stablehlo.slice %[[WHOLE]] [1:8] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>}
  %0 = stablehlo.slice %x [1:8] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : (tensor<8xf32>) -> tensor<7xf32>
  // CHECK-NEXT: return %[[SHIFTED]]
  return %0 : tensor<7xf32>
}
