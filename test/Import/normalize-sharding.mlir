// RUN: scalify-opt %s --scalify-normalize-sharding | FileCheck %s

// A mesh of one device says nothing; one of several stays, with what refers to it.
// CHECK-NOT: @empty_mesh
// CHECK-NOT: @one
// CHECK: sdy.mesh @four = <["x"=4]>
// CHECK-NOT: @empty_mesh
sdy.mesh @empty_mesh = <[]>
sdy.mesh @one = <["x"=1]>
sdy.mesh @four = <["x"=4]>

// CHECK-LABEL: func.func public @main
// CHECK-SAME: %arg0: tensor<2xui32>,
// CHECK-SAME: %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@four, [{"x"}]>},
// CHECK-SAME: %arg2: tensor<f32>)
// CHECK-SAME: -> (tensor<2xui32>, tensor<8xf32>, tensor<f32>)
func.func public @main(%key: tensor<2xui32>,
                       %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@four, [{"x"}]>},
                       %y: tensor<f32> {sdy.sharding = #sdy.sharding<@empty_mesh, []>})
    -> (tensor<2xui32>, tensor<8xf32>, tensor<f32> {sdy.sharding = #sdy.sharding<@one, []>}) {
  // CHECK-NEXT: %[[X:.*]] = sdy.sharding_constraint %arg1 <@four, [{"x"}]>
  // CHECK-NEXT: return %arg0, %[[X]], %arg2
  %0 = sdy.sharding_constraint %key <@empty_mesh, [{}]> : tensor<2xui32>
  %1 = sdy.sharding_constraint %x <@four, [{"x"}]> : tensor<8xf32>
  return %0, %1, %y : tensor<2xui32>, tensor<8xf32>, tensor<f32>
}
