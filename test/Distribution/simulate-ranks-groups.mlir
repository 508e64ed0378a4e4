// RUN: scalify-opt %s --scalify-simulate-ranks | FileCheck %s

// Groups of two axes: a sum over data in the order of its group, whatever the
// numbers of its members, once for the ranks of both parts of a weight.

sdy.mesh @mesh = <["data"=2, "tensor"=2]>

// CHECK: %[[W0:.*]] = stablehlo.slice %{{.*}} [0:2]
// CHECK: %[[W1:.*]] = stablehlo.slice %{{.*}} [2:4]
// CHECK: %[[X0:.*]] = stablehlo.slice %{{.*}} [0:2]
// CHECK: %[[X1:.*]] = stablehlo.slice %{{.*}} [2:4]
// CHECK: %[[P0:.*]] = stablehlo.multiply %[[W0]], %[[X0]]
// CHECK: %[[P1:.*]] = stablehlo.multiply %[[W1]], %[[X0]]
// CHECK: %[[P2:.*]] = stablehlo.multiply %[[W0]], %[[X1]]
// CHECK: %[[P3:.*]] = stablehlo.multiply %[[W1]], %[[X1]]
// CHECK: %[[S0:.*]] = stablehlo.add %[[P2]], %[[P0]]
// CHECK: %[[S1:.*]] = stablehlo.add %[[P1]], %[[P3]]
// CHECK-NOT: stablehlo.add
// CHECK: %[[N0:.*]] = stablehlo.negate %[[S0]]
// CHECK: %[[N1:.*]] = stablehlo.negate %[[S1]]
// CHECK-NOT: stablehlo.negate
// CHECK: stablehlo.concatenate %[[N0]], %[[N1]], dim = 0
func.func @main(
    %w: tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>},
    %x: tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>})
    -> (tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}) {
  %0 = stablehlo.multiply %w, %x : tensor<2xf32>
  %1 = "stablehlo.all_reduce"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = stablehlo.negate %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}
