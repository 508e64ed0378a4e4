// RUN: scalify-opt %s --scalify-gather-unshardable --split-input-file | FileCheck %s

// The example of the td entry: the operand is gathered, and each device keeps
// its shard of the result.

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK-LABEL: func.func @reverse
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>
func.func @reverse(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %[[X]] <@mesh, [{}, {"y"}]>
  // CHECK: %[[REVERSED:.*]] = stablehlo.reverse %[[WHOLE]], dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>}
  // CHECK: %[[SHARD:.*]] = sdy.reshard %[[REVERSED]] <@mesh, [{"x"}, {"y"}]>
  %0 = stablehlo.reverse %x, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x4xf32>
  // CHECK: return %[[SHARD]]
  return %0 : tensor<8x4xf32>
}

// An op's result in its old sharding is what the next one gathers.

// CHECK-LABEL: func.func @chain
func.func @chain(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x4xf32> {
  // CHECK: %[[FIRST:.*]] = stablehlo.reverse {{.*}} dims = [0]
  // CHECK: %[[SHARD:.*]] = sdy.reshard %[[FIRST]] <@mesh, [{"x"}, {"y"}]>
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %[[SHARD]] <@mesh, [{"x"}, {}]>
  // CHECK: stablehlo.reverse %[[WHOLE]], dims = [1]
  %0 = stablehlo.reverse %x, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x4xf32>
  %1 = stablehlo.reverse %0, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// What has no axes on these dimensions, or no sharding, needs nothing.

// CHECK-LABEL: func.func @nothing
func.func @nothing(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %y: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  // CHECK-NOT: sdy.reshard
  %0 = stablehlo.reverse %x, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x4xf32>
  %1 = stablehlo.reverse %y, dims = [0] : tensor<8x4xf32>
  %2 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x4xf32>
  // CHECK: return
  return %0, %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// Only the operand that is sharded along the dimension is resharded; a result
// that is whole stays.

// CHECK-LABEL: func.func @concatenate
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32> {{.*}}, %[[Y:.*]]: tensor<8x4xf32>
func.func @concatenate(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %y: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<16x4xf32> {
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %[[X]] <@mesh, [{}, {}]>
  // CHECK: stablehlo.concatenate %[[WHOLE]], %[[Y]]
  %0 = stablehlo.concatenate %x, %y, dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK-NEXT: return
  return %0 : tensor<16x4xf32>
}

// Dimension 1 is sliced, dimension 0 is not.

// CHECK-LABEL: func.func @slice
func.func @slice(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x2xf32> {
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %{{.*}} <@mesh, [{"x"}, {}]>
  // CHECK: stablehlo.slice %[[WHOLE]] [0:8, 1:3] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
  %0 = stablehlo.slice %x [0:8, 1:3] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8x4xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// CHECK-LABEL: func.func @dynamic_update_slice
func.func @dynamic_update_slice(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %u: tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %i: tensor<i32> {sdy.sharding = #sdy.sharding<@mesh, []>}) -> tensor<8x4xf32> {
  // CHECK: %[[X:.*]] = sdy.reshard %arg0 <@mesh, [{}, {"y"}]>
  // CHECK: %[[U:.*]] = sdy.reshard %arg1 <@mesh, [{}, {"y"}]>
  // CHECK: %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[X]], %[[U]], %arg2, %arg2
  // CHECK: sdy.reshard %[[NEW]] <@mesh, [{"x"}, {"y"}]>
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %i {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8x4xf32>, tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each of the three kinds of padding.

// CHECK-LABEL: func.func @pad
func.func @pad(
    %x: tensor<4x4x4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {}, {}]>},
    %z: tensor<f32>) -> (tensor<5x4x4x4xf32>, tensor<4x5x4x4xf32>, tensor<7x4x4x4xf32>, tensor<4x4x5x4xf32>) {
  // CHECK: sdy.reshard %arg0 <@mesh, [{}, {"y"}, {}, {}]>
  // CHECK: stablehlo.pad {{.*}} low = [1, 0, 0, 0]
  %0 = stablehlo.pad %x, %z, low = [1, 0, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x4x4x4xf32>, tensor<f32>) -> tensor<5x4x4x4xf32>
  // CHECK: sdy.reshard %arg0 <@mesh, [{"x"}, {}, {}, {}]>
  // CHECK: stablehlo.pad {{.*}} high = [0, 1, 0, 0]
  %1 = stablehlo.pad %x, %z, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x4x4x4xf32>, tensor<f32>) -> tensor<4x5x4x4xf32>
  // CHECK: sdy.reshard %arg0 <@mesh, [{}, {"y"}, {}, {}]>
  // CHECK: stablehlo.pad {{.*}} interior = [1, 0, 0, 0]
  %2 = stablehlo.pad %x, %z, low = [0, 0, 0, 0], high = [0, 0, 0, 0], interior = [1, 0, 0, 0] : (tensor<4x4x4x4xf32>, tensor<f32>) -> tensor<7x4x4x4xf32>
  // CHECK-NOT: sdy.reshard
  // CHECK: stablehlo.pad %arg0
  %3 = stablehlo.pad %x, %z, low = [0, 0, 1, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0] : (tensor<4x4x4x4xf32>, tensor<f32>) -> tensor<4x4x5x4xf32>
  return %0, %1, %2, %3 : tensor<5x4x4x4xf32>, tensor<4x5x4x4xf32>, tensor<7x4x4x4xf32>, tensor<4x4x5x4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>

// A window of one row in its place shards rows; windows of two columns do not.

// CHECK-LABEL: func.func @reduce_window
func.func @reduce_window(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %z: tensor<f32>)
    -> tensor<8x2xf32> {
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %arg0 <@mesh, [{"x"}, {}]>
  // CHECK: %[[POOLED:.*]] = "stablehlo.reduce_window"(%[[WHOLE]], %arg1)
  // CHECK: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>
  // CHECK: sdy.reshard %[[POOLED]] <@mesh, [{"x"}, {"y"}]>
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// Strides, dilations and padding move elements also if the window is one
// element.

// CHECK-LABEL: func.func @moved_windows
func.func @moved_windows(
    %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %z: tensor<f32>)
    -> (tensor<4xf32>, tensor<15xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: sdy.reshard %arg0 <@mesh, [{}]>
  // CHECK: "stablehlo.reduce_window"{{.*}}window_strides = array<i64: 2>
  %0 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: sdy.reshard %arg0 <@mesh, [{}]>
  // CHECK: "stablehlo.reduce_window"{{.*}}base_dilations = array<i64: 2>
  %1 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>, base_dilations = array<i64: 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<15xf32>
  // CHECK: sdy.reshard %arg0 <@mesh, [{}]>
  // CHECK: "stablehlo.reduce_window"{{.*}}padding = dense<{{.*}}1, -1
  %2 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>, padding = dense<[[1, -1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK-NOT: sdy.reshard
  // CHECK: "stablehlo.reduce_window"(%arg0, %arg1)
  %3 = "stablehlo.reduce_window"(%x, %z) <{window_dimensions = array<i64: 1>, padding = dense<0> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<15xf32>, tensor<8xf32>, tensor<8xf32>
}

// Operand and source are gathered along the columns that windows overlap.

// CHECK-LABEL: func.func @select_and_scatter
func.func @select_and_scatter(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
    %g: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %z: tensor<f32>)
    -> tensor<8x4xf32> {
  // CHECK: %[[X:.*]] = sdy.reshard %arg0 <@mesh, [{"x"}, {}]>
  // CHECK: %[[G:.*]] = sdy.reshard %arg1 <@mesh, [{"x"}, {}]>
  // CHECK: %[[NEW:.*]] = "stablehlo.select_and_scatter"(%[[X]], %[[G]], %arg2)
  // CHECK: sdy.reshard %[[NEW]] <@mesh, [{"x"}, {"y"}]>
  %0 = "stablehlo.select_and_scatter"(%x, %g, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8x4xf32>, tensor<8x2xf32>, tensor<f32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Batches and features of a convolution stay sharded.

// CHECK-LABEL: func.func @convolution
func.func @convolution(
    %x: tensor<8x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {}]>},
    %k: tensor<4x4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {"x"}]>})
    -> tensor<8x13x6xf32> {
  // CHECK: %[[X:.*]] = sdy.reshard %arg0 <@mesh, [{"x"}, {}, {}]>
  // CHECK: %[[K:.*]] = sdy.reshard %arg1 <@mesh, [{}, {}, {"x"}]>
  // CHECK: %[[CONV:.*]] = stablehlo.convolution(%[[X]], %[[K]])
  // CHECK-SAME: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}, {}]>]>
  // CHECK: sdy.reshard %[[CONV]] <@mesh, [{"x"}, {"y"}, {}]>
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}, {}]>]>} : (tensor<8x16x4xf32>, tensor<4x4x6xf32>) -> tensor<8x13x6xf32>
  return %0 : tensor<8x13x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>

// A collective adds the partial sums of devices, but no collective multiplies.

// CHECK-LABEL: func.func @reduce
func.func @reduce(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %z: tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %arg0 <@mesh, [{}, {"y"}]>
  // CHECK: %[[PRODUCT:.*]] = stablehlo.reduce(%[[WHOLE]] init: %arg1) applies stablehlo.multiply
  // CHECK-SAME: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>
  %1 = stablehlo.reduce(%x init: %z) applies stablehlo.multiply across dimensions = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  // CHECK: return %{{.*}}, %[[PRODUCT]]
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// An argmax: values are gathered, indices are generated whole. The iota's other
// user keeps it sharded.

// CHECK-LABEL: func.func @argmax
func.func @argmax(
    %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %z: tensor<f32>, %n: tensor<i32>)
    -> (tensor<f32>, tensor<i32>, tensor<8xi32>) {
  // CHECK: %[[SHARDED:.*]] = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xi32>
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %arg0 <@mesh, [{}]>
  // CHECK: %[[PLACES:.*]] = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>}
  // CHECK: stablehlo.reduce(%[[WHOLE]] init: %arg1), (%[[PLACES]] init: %arg2)
  %1:2 = stablehlo.reduce(%x init: %z), (%0 init: %n) across dimensions = [0] : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %2 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.select %2, %a, %b : tensor<i1>, tensor<f32>
    %4 = stablehlo.select %2, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<i32>
  }
  // CHECK: return %{{.*}}#0, %{{.*}}#1, %[[SHARDED]]
  return %1#0, %1#1, %0 : tensor<f32>, tensor<i32>, tensor<8xi32>
}

// CHECK-LABEL: func.func @constant
func.func @constant() -> tensor<4xf32> {
  // CHECK: "sdy.constant"() <{{.*}}> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
  %0 = "sdy.constant"() <{value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>}> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : () -> tensor<4xf32>
  // CHECK: %[[WHOLE:.*]] = "sdy.constant"() <{{.*}}> {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>}
  // CHECK: stablehlo.reverse %[[WHOLE]]
  %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// Halves of an axis are gathered as whole axes are.

// CHECK-LABEL: func.func @sub_axes
func.func @sub_axes(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)2}]>}) -> tensor<8x4xf32> {
  // CHECK: sdy.reshard %arg0 <@mesh, [{"x":(1)2}, {}]>
  // CHECK: stablehlo.reverse
  // CHECK: sdy.reshard %{{.*}} <@mesh, [{"x":(1)2}, {"x":(2)2}]>
  %0 = stablehlo.reverse %x, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x":(1)2}, {"x":(2)2}]>]>} : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// A carry of a loop has the sharding of the loop's result.

// CHECK-LABEL: func.func @carries
func.func @carries(
    %x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %i: tensor<i32>) -> tensor<8xf32> {
  // CHECK-NOT: sdy.reshard
  // CHECK: stablehlo.while(%[[A:.*]] = %arg0,
  %0:2 = stablehlo.while(%a = %x, %n = %i) : tensor<8xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>}
  cond {
    %1 = stablehlo.compare LT, %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    // CHECK: %[[WHOLE:.*]] = sdy.reshard %[[A]] <@mesh, [{}]>
    // CHECK: %[[REVERSED:.*]] = stablehlo.reverse %[[WHOLE]]
    // CHECK: %[[SHARD:.*]] = sdy.reshard %[[REVERSED]] <@mesh, [{"x"}]>
    // CHECK: stablehlo.return %[[SHARD]],
    %1 = stablehlo.reverse %a, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
    stablehlo.return %1, %n : tensor<8xf32>, tensor<i32>
  }
  return %0#0 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2, "y"=2]>

// Values of a manual computation: an argument is sharded along the free axis
// "y", a result as declared.

// CHECK-LABEL: func.func @manual
func.func @manual(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: %[[MANUAL:.*]] = sdy.manual_computation(%arg0)
  // CHECK-SAME: (%[[A:.*]]: tensor<4x4xf32>)
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x"} (%a: tensor<4x4xf32>) {
    // CHECK: %[[PART:.*]] = sdy.reshard %[[A]] <@mesh, [{}, {}]>
    // CHECK: %[[REVERSED:.*]] = stablehlo.reverse %[[PART]], dims = [1]
    // CHECK: sdy.reshard %[[REVERSED]] <@mesh, [{}, {"y"}]>
    %1 = stablehlo.reverse %a, dims = [1] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<4x4xf32>
    sdy.return %1 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  // CHECK: %[[WHOLE:.*]] = sdy.reshard %[[MANUAL]] <@mesh, [{}, {"y"}]>
  // CHECK: stablehlo.reverse %[[WHOLE]], dims = [0]
  %1 = stablehlo.reverse %0, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
