// RUN: scalify-opt %s | FileCheck %s

// Meshes, shardings and manual computations in the forms that JAX prints.

// CHECK: sdy.mesh @mesh = <["data"=2, "model"=4]>
sdy.mesh @mesh = <["data"=2, "model"=4]>
// CHECK: sdy.mesh @reordered = <["x"=2], device_ids=[1, 0]>
sdy.mesh @reordered = <["x"=2], device_ids=[1, 0]>
// CHECK: sdy.mesh @empty = <[]> {stablehlo.mesh = {axes = []}}
sdy.mesh @empty = <[]> {stablehlo.mesh = {axes = []}}

// CHECK-LABEL: func.func @arguments
// CHECK-SAME: {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// CHECK-SAME: {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {?}]>}
// CHECK-SAME: {sdy.sharding = #sdy.sharding<@mesh, [{"model":(1)2, ?}p1, {}], replicated={"data"}>}
// CHECK-SAME: {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}
func.func @arguments(
    %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {?}]>},
    %c: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model":(1)2, ?}p1, {}], replicated={"data"}>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}) {
  %0 = stablehlo.constant dense<0.0> : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @constraints
func.func @constraints(%a: tensor<8x4xf32>) {
  // CHECK: sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  %0 = sdy.sharding_constraint %a <@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  // CHECK: sdy.reshard %{{.*}} <@mesh, [{}, {}], unreduced={"model"}> : tensor<8x4xf32>
  %1 = sdy.reshard %0 <@mesh, [{}, {}], unreduced={"model"}> : tensor<8x4xf32>
  // CHECK: sdy.sharding_group %{{.*}} group_id=3 : tensor<8x4xf32>
  sdy.sharding_group %1 group_id=3 : tensor<8x4xf32>
  return
}

// CHECK-LABEL: func.func @manual
func.func @manual(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%[[B:.*]]: tensor<4x4xf32>) {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%b: tensor<4x4xf32>) {
    // CHECK-NEXT: stablehlo.add %[[B]], %[[B]]
    %1 = stablehlo.add %b, %b : tensor<4x4xf32>
    // CHECK-NEXT: sdy.return %{{.*}} : tensor<4x4xf32>
    sdy.return %1 : tensor<4x4xf32>
  // CHECK-NEXT: } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @rules
func.func @rules(%a: tensor<8x4xf32>) {
  // CHECK: sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk])->([i, j], []) {i=8, j=2, k=2} reduction={k}, custom>
  %0:2 = stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk])->([i, j], []) {i=8, j=2, k=2} reduction={k}, custom>} : (tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<i32>)
  return
}
