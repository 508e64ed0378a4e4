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

// Collectives in the generic form, which is all that Shardy's printer shares
// with ours.
// CHECK-LABEL: func.func @collectives
func.func @collectives(%a: tensor<8x4xf32>) {
  // CHECK: "sdy.all_reduce"(%{{.*}}) <{out_sharding = #sdy.sharding<@mesh, [{"data"}, {}]>, reduction_axes = #sdy<axis_ref_list{"model":(1)2}>}>
  %0 = "sdy.all_reduce"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"data"}, {}]>, reduction_axes = #sdy<axis_ref_list{"model":(1)2}>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.reduce_scatter"({{.*}}reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{}, {"model"}]>
  %1 = "sdy.reduce_scatter"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>, reduce_scatter_axes = #sdy<list_of_axis_ref_lists[{}, {"model"}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.all_gather"({{.*}}gathering_axes = #sdy<list_of_axis_ref_lists[{"data", "model"}, {}]>
  %2 = "sdy.all_gather"(%a) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"data", "model"}, {}]>, out_sharding = #sdy.sharding<@mesh, [{}, {}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.all_to_all"({{.*}}params = #sdy<all_to_all_param_list[{"data"}: 0->1, {"model"}: 1->0]>
  %3 = "sdy.all_to_all"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"model"}, {"data"}]>, params = #sdy<all_to_all_param_list[{"data"}: 0->1, {"model"}: 1->0]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.collective_permute"
  %4 = "sdy.collective_permute"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.all_slice"({{.*}}slicing_axes
  %5 = "sdy.all_slice"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"data"}, {}]>, slicing_axes = #sdy<list_of_axis_ref_lists[{"data"}, {}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: "sdy.constant"() <{value = dense<1.000000e+00> : tensor<4xf32>}>
  %6 = "sdy.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<4xf32>
  return
}
