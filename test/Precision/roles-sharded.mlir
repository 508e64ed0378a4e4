// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize | FileCheck %s

// A weight that enters a sharded computation, and is gathered there from its
// shards, is a weight: the layer before the last is cast, the head is not.
// CHECK-LABEL: func.func @sharded
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false, head = false, embedding = false, convolution = false, sensitive = false>} {
  sdy.mesh @mesh = <["data"=2]>
  func.func @sharded(%x: tensor<4x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %b: tensor<8x8xf32> {scalify.role = #scalify.role<param>}) -> tensor<4x8xf32> {
    %r = sdy.manual_computation(%x, %a, %b)
        in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>]
        out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"}
        (%x0: tensor<2x8xf32>, %a0: tensor<4x8xf32>, %b0: tensor<4x8xf32>) {
      %s = stablehlo.constant dense<0.5> : tensor<f32>
      %wa = "stablehlo.all_gather"(%a0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %wb = "stablehlo.all_gather"(%b0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %was = scalify.scale_hint %wa, %s : tensor<8x8xf32>
      %wbs = scalify.scale_hint %wb, %s : tensor<8x8xf32>
      %x1 = stablehlo.tanh %x0 : tensor<2x8xf32>
      %x2 = scalify.scale_hint %x1, %s : tensor<2x8xf32>
      // CHECK-COUNT-2: scalify.quantize
      // CHECK-NOT: scalify.quantize
      %h = stablehlo.dot_general %x2, %was, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      %h1 = stablehlo.tanh %h : tensor<2x8xf32>
      %h2 = scalify.scale_hint %h1, %s : tensor<2x8xf32>
      // CHECK: stablehlo.dot_general {{.*}}scalify.wide = #scalify.decision<"head", "the last linear layer before a result
      %z = stablehlo.dot_general %h2, %wbs, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
      sdy.return %z : tensor<2x8xf32>
    } : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %r : tensor<4x8xf32>
  }
}
