// RUN: scalify-opt %s --scalify-localize --split-input-file | FileCheck %s

// Weights' gradient of a data-parallel layer: each device has its examples.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @weight_gradient
// CHECK-SAME: (%[[X:.*]]: tensor<4x3xf32> {scalify.parts = [array<i64: 1, 2>, array<i64>], scalify.whole_type = tensor<8x3xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// CHECK-SAME: %[[DY:.*]]: tensor<4x5xf32>
// CHECK-SAME: -> (tensor<3x5xf32> {scalify.parts = [array<i64>, array<i64>], scalify.whole_type = tensor<3x5xf32>
func.func @weight_gradient(
    %x: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %dy: tensor<8x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
    -> (tensor<3x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  // CHECK: %[[PART:.*]] = stablehlo.dot_general %[[X]], %[[DY]], contracting_dims = [0] x [0]
  // CHECK: %[[SUM:.*]] = "stablehlo.all_reduce"(%[[PART]])
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1]]> : tensor<1x2xi64>
  // CHECK: stablehlo.add
  // CHECK: return %[[SUM]]
  %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0]
      : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"data"}>}> : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// -----

// Groups are in the order of parts; what joins is what the reduction did.

sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>

// CHECK-LABEL: func.func @groups
func.func @groups(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c", "a"}, {}]>},
    %low: tensor<f32>)
    -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
        tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  // CHECK: "stablehlo.all_gather"
  // CHECK-SAME: all_gather_dim = 0
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 4, 1, 5], [2, 6, 3, 7]]>
  %0 = "sdy.all_gather"(%x) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"c", "a"}, {}]>, out_sharding = #sdy.sharding<@mesh, [{}, {}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: %[[MAX:.*]] = stablehlo.reduce
  // CHECK: "stablehlo.all_reduce"(%[[MAX]])
  // CHECK: stablehlo.maximum
  %1 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = "sdy.all_reduce"(%1) <{out_sharding = #sdy.sharding<@mesh, [{}]>, reduction_axes = #sdy<axis_ref_list{"a", "c"}>}> : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<8x4xf32>, tensor<4xf32>
}

// -----

// Parts of an axis, as Shardy makes them for a reshape that splits a dimension.

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func @parts_of_an_axis
// CHECK-SAME: tensor<1x6xf32>
func.func @parts_of_an_axis(
    %x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<2x2x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {}]>}) {
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<1x6xf32>) -> tensor<1x1x6xf32>
  %0 = stablehlo.reshape %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x":(1)2}, {"x":(2)2}, {}]>]>} : (tensor<4x6xf32>) -> tensor<2x2x6xf32>
  // CHECK: "stablehlo.all_gather"
  // CHECK-SAME: all_gather_dim = 1
  // CHECK-SAME: dense<{{\[\[}}0, 1], [2, 3]]>
  %1 = "sdy.all_gather"(%0) <{gathering_axes = #sdy<list_of_axis_ref_lists[{}, {"x":(2)2}, {}]>, out_sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {}]>}> : (tensor<2x2x6xf32>) -> tensor<2x2x6xf32>
  return %1 : tensor<2x2x6xf32>
}

// -----

// What depends on the device is looked up by its number.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @places
func.func @places() -> (tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                        tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                        tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // CHECK: %[[COUNT:.*]] = stablehlo.iota dim = 0 : tensor<2xi32>
  // CHECK: %[[TABLE:.*]] = stablehlo.constant dense<{{\[\[}}0], [2]]> : tensor<2x1xi32>
  // CHECK: stablehlo.partition_id
  // CHECK: stablehlo.dynamic_slice %[[TABLE]]
  // CHECK: stablehlo.add %[[COUNT]]
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xi32>
  // CHECK: stablehlo.constant dense<7> : tensor<2xi32>
  %1 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<7> : tensor<4xi32>
  // CHECK: %[[ALL:.*]] = stablehlo.constant dense<[1, 2, 3, 4]>
  // CHECK: stablehlo.dynamic_slice %[[ALL]], %{{.*}}, sizes = [2]
  %2 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} dense<[1, 2, 3, 4]> : tensor<4xi32>
  return %0, %1, %2 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}

// -----

// A manual computation is what it was, without its frame.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @manual
func.func @manual(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // CHECK-NOT: sdy.manual_computation
  // CHECK: %[[TWICE:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
  // CHECK: return %[[TWICE]] : tensor<4xf32>
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%part: tensor<4xf32>) {
    %1 = stablehlo.add %part, %part : tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// An embedding whose vocabulary is split: each device looks up its own rows,
// and the others are zeros of a sum. Its gradient leaves other rows out.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @embedding
func.func @embedding(%table: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                     %ids: tensor<5x1xi32>, %dy: tensor<5x3xf32>)
    -> (tensor<5x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
        tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[NEAR:.*]] = stablehlo.clamp
  // CHECK: stablehlo.constant dense<{{\[\[}}0], [4]]> : tensor<2x1xi32>
  // CHECK: %[[MINE:.*]] = stablehlo.subtract %[[NEAR]]
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%{{.*}}, %[[MINE]])
  // CHECK: %[[KNOWN:.*]] = stablehlo.select %{{.*}}, %[[ROWS]], %{{.*}}
  // CHECK: "stablehlo.all_reduce"(%[[KNOWN]])
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<8x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>
  %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<5x3xf32>) -> tensor<5x3xf32>
  // CHECK: %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x3xf32>
  %zeros = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} dense<0.0> : tensor<8x3xf32>
  // CHECK: %[[THERE:.*]] = stablehlo.subtract %{{.*}}, %{{.*}} : tensor<5x1xi32>
  // CHECK: "stablehlo.scatter"(%[[ZEROS]], %[[THERE]]
  %2 = "stablehlo.scatter"(%zeros, %ids, %dy) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  return %1, %2 : tensor<5x3xf32>, tensor<8x3xf32>
}

// -----

// Updates of several devices: what they are added to is added once.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @starts_once
func.func @starts_once(%start: tensor<8xf32>, %ids: tensor<4x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                       %updates: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  // CHECK: stablehlo.constant dense<{{\[\[}}0], [1]]> : tensor<2x1xi32>
  // CHECK: %[[IS_FIRST:.*]] = stablehlo.compare EQ
  // CHECK: %[[START:.*]] = stablehlo.select
  // CHECK: %[[PART:.*]] = "stablehlo.scatter"(%[[START]]
  // CHECK: "stablehlo.all_reduce"(%[[PART]])
  %0 = "stablehlo.scatter"(%start, %ids, %updates) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<8xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<8xf32>
  %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// Other collectives, over one dimension after the other.

sdy.mesh @mesh = <["a"=2, "b"=2]>

// CHECK-LABEL: func.func @moves
func.func @moves(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>},
                 %y: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>})
    -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>},
        tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>},
        tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}) {
  // CHECK: "stablehlo.all_to_all"
  // CHECK-SAME: concat_dimension = 0
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 2], [1, 3]]>
  // CHECK-SAME: split_count = 2
  // CHECK-SAME: split_dimension = 1
  // CHECK-SAME: (tensor<2x8xf32>) -> tensor<4x4xf32>
  %0 = "sdy.all_to_all"(%x) <{out_sharding = #sdy.sharding<@mesh, [{}, {"a"}]>, params = #sdy<all_to_all_param_list[{"a"}: 0->1]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "stablehlo.collective_permute"
  // CHECK-SAME: source_target_pairs = dense<{{\[\[}}0, 0], [2, 1], [1, 2], [3, 3]]>
  %1 = "sdy.collective_permute"(%y) <{out_sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: stablehlo.dynamic_slice %{{.*}}, sizes = [2, 4] : (tensor<2x8xf32>
  %2 = "sdy.all_slice"(%x) <{out_sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>, slicing_axes = #sdy<list_of_axis_ref_lists[{}, {"b"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A result of which nothing is said is whole on each device.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @unsaid
// CHECK-SAME: -> (tensor<3xf32> {scalify.parts = [array<i64>], scalify.whole_type = tensor<3xf32>})
func.func @unsaid(%x: tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
