// RUN: scalify-opt %s --scalify-simulate-ranks --split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-simulate-ranks=ranks=2 --split-input-file | FileCheck %s

// Each rank has its examples; sums go in the order of the group.

// CHECK-LABEL: module @data_parallel
// CHECK-SAME: mhlo.num_partitions = 1 : i32
// CHECK-NOT: sdy
module @data_parallel attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["data"=2]>
  // CHECK: func.func @main(%[[X:.*]]: tensor<8x3xf32> {scalify.name = "x"}, %[[DY:.*]]: tensor<8x5xf32>,
  // CHECK-SAME: %[[W:.*]]: tensor<3x5xf32> {tf.aliasing_output = 0 : i32})
  // CHECK-SAME: -> (tensor<3x5xf32> {jax.result_info = "w"}, tensor<8x3xf32>)
  func.func @main(
      %x: tensor<4x3xf32> {scalify.name = "x", scalify.whole_type = tensor<8x3xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
      %dy: tensor<4x5xf32> {scalify.whole_type = tensor<8x5xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
      %w: tensor<3x5xf32> {scalify.whole_type = tensor<3x5xf32>, sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32})
      -> (tensor<3x5xf32> {jax.result_info = "w", scalify.whole_type = tensor<3x5xf32>, sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
          tensor<4x3xf32> {scalify.whole_type = tensor<8x3xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
    // CHECK: %[[X0:.*]] = stablehlo.slice %[[X]] [0:4, 0:3] {plan.materialise}
    // CHECK: %[[X1:.*]] = stablehlo.slice %[[X]] [4:8, 0:3]
    // CHECK: %[[DY0:.*]] = stablehlo.slice %[[DY]] [0:4, 0:5]
    // CHECK: %[[DY1:.*]] = stablehlo.slice %[[DY]] [4:8, 0:5]
    // What reads no examples is there once; rank 1 follows rank 0.
    // CHECK: %[[DOWN:.*]] = stablehlo.negate %[[W]]
    // CHECK: %[[SIN0:.*]] = stablehlo.sine %[[X0]]
    // CHECK: %[[DW0:.*]] = stablehlo.dot_general %[[X0]], %[[DY0]]
    // CHECK-NOT: stablehlo.negate
    // CHECK: %[[SIN1:.*]] = stablehlo.sine %[[X1]]
    // CHECK: %[[DW1:.*]] = stablehlo.dot_general %[[X1]], %[[DY1]]
    %down = stablehlo.negate %w : tensor<3x5xf32>
    %sin = stablehlo.sine %x : tensor<4x3xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
    // CHECK: %[[SUM:.*]] = stablehlo.add %[[DW0]], %[[DW1]] {scalify.phase = #scalify.phase<backward>}
    %sum = "stablehlo.all_reduce"(%dw) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %0 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %0 : tensor<f32>
    }) {scalify.phase = #scalify.phase<backward>} : (tensor<3x5xf32>) -> tensor<3x5xf32>
    // CHECK: %[[NEXT:.*]] = stablehlo.subtract %[[DOWN]], %[[SUM]]
    // CHECK-NOT: stablehlo.subtract
    %next = stablehlo.subtract %down, %sum : tensor<3x5xf32>
    // CHECK: %[[SINS:.*]] = stablehlo.concatenate %[[SIN0]], %[[SIN1]], dim = 0
    // CHECK: return %[[NEXT]], %[[SINS]]
    return %next, %sin : tensor<3x5xf32>, tensor<4x3xf32>
  }
}

// -----

// BF16 is summed in F32, from the group's first member on, and rounded once.

// CHECK-LABEL: module @bf16
module @bf16 {
sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xbf16> {scalify.whole_type = tensor<8xbf16>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
    -> (tensor<2xbf16> {scalify.whole_type = tensor<4xbf16>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // CHECK: %[[X0:.*]] = stablehlo.slice %{{.*}} [0:4]
  // CHECK: %[[X1:.*]] = stablehlo.slice %{{.*}} [4:8]
  // CHECK: %[[W1:.*]] = stablehlo.convert %[[X1]] : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK: %[[W0:.*]] = stablehlo.convert %[[X0]]
  // CHECK: %[[WIDE:.*]] = stablehlo.add %[[W1]], %[[W0]] : tensor<4xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.convert %[[WIDE]] : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[SUM]] [0:2]
  // CHECK: %[[SECOND:.*]] = stablehlo.slice %[[SUM]] [2:4]
  // CHECK: stablehlo.concatenate %[[SECOND]], %[[FIRST]], dim = 0
  %0 = "stablehlo.reduce_scatter"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64, use_global_device_ids}> ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %1 = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %1 : tensor<bf16>
  }) : (tensor<4xbf16>) -> tensor<2xbf16>
  return %0 : tensor<2xbf16>
}
}

// -----

// What moves data alone, and what a device knows of itself.

// CHECK-LABEL: module @moves
module @moves {
sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<2x2xf32> {scalify.whole_type = tensor<4x2xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<4x2xf32> {scalify.whole_type = tensor<4x2xf32>, sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
        tensor<4x1xf32> {scalify.whole_type = tensor<4x2xf32>, sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
        tensor<2x2xf32> {scalify.whole_type = tensor<4x2xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
        tensor<2x2xf32> {scalify.whole_type = tensor<4x2xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
        tensor<1xui32> {scalify.whole_type = tensor<2xui32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // CHECK: %[[X0:.*]] = stablehlo.slice %{{.*}} [0:2, 0:2]
  // CHECK: %[[X1:.*]] = stablehlo.slice %{{.*}} [2:4, 0:2]
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[X0]], %[[X1]], dim = 0
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2x2xf32>) -> tensor<4x2xf32>
  // CHECK: %[[P00:.*]] = stablehlo.slice %[[X0]] [0:2, 0:1]
  // CHECK: %[[P01:.*]] = stablehlo.slice %[[X0]] [0:2, 1:2]
  // CHECK: %[[P10:.*]] = stablehlo.slice %[[X1]] [0:2, 0:1]
  // CHECK: %[[P11:.*]] = stablehlo.slice %[[X1]] [0:2, 1:2]
  // CHECK: %[[T0:.*]] = stablehlo.concatenate %[[P00]], %[[P10]], dim = 0
  // CHECK: %[[T1:.*]] = stablehlo.concatenate %[[P01]], %[[P11]], dim = 0
  %1 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<2x2xf32>) -> tensor<4x1xf32>
  // Nobody sends to rank 0.
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x2xf32>
  %2 = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = "stablehlo.collective_broadcast"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: %[[ID0:.*]] = stablehlo.constant dense<0> : tensor<ui32>
  // CHECK: %[[OWN0:.*]] = stablehlo.optimization_barrier %[[ID0]]
  // CHECK: stablehlo.reshape %[[OWN0]]
  // CHECK: %[[ID1:.*]] = stablehlo.constant dense<1> : tensor<ui32>
  // CHECK: %[[OWN1:.*]] = stablehlo.optimization_barrier %[[ID1]]
  // CHECK: stablehlo.reshape %[[OWN1]]
  %4 = stablehlo.partition_id : tensor<ui32>
  %5 = stablehlo.reshape %4 : (tensor<ui32>) -> tensor<1xui32>
  // CHECK: %[[TURNED:.*]] = stablehlo.concatenate %[[T0]], %[[T1]], dim = 1
  // CHECK: %[[SENT:.*]] = stablehlo.concatenate %[[ZERO]], %[[X0]], dim = 0
  // CHECK: %[[GIVEN:.*]] = stablehlo.concatenate %[[X1]], %[[X1]], dim = 0
  // CHECK: return %[[ALL]], %[[TURNED]], %[[SENT]], %[[GIVEN]]
  return %0, %1, %2, %3, %5 : tensor<4x2xf32>, tensor<4x1xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<1xui32>
}
}

// -----

// Ranks go through a loop side by side. The counter and the sum are there once;
// the second value starts alike on all ranks and is so no more after a trip.

// CHECK-LABEL: module @loop
module @loop {
sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %start: tensor<2xf32>)
    -> (tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  // CHECK: %[[LOOP:.*]]:4 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[A0:.*]] = %[[START:.*]], %[[A1:.*]] = %[[START]], %[[S:.*]] = %[[START]])
  // CHECK: %[[GO:.*]] = stablehlo.compare LT, %[[I]]
  // CHECK-NOT: stablehlo.compare
  // CHECK: %[[N0:.*]] = stablehlo.add %[[A0]], %{{.*}} : tensor<2xf32>
  // CHECK: %[[N1:.*]] = stablehlo.add %[[A1]], %{{.*}} : tensor<2xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[N0]], %[[N1]]
  // CHECK: %[[T:.*]] = stablehlo.multiply %[[S]], %[[SUM]]
  // CHECK: stablehlo.return %{{.*}}, %[[N0]], %[[N1]], %[[T]]
  %0:3 = stablehlo.while(%i = %zero, %a = %start, %s = %start) : tensor<i32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = stablehlo.add %a, %x : tensor<2xf32>
    %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %5 = stablehlo.add %b, %c : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    %4 = stablehlo.multiply %s, %3 : tensor<2xf32>
    stablehlo.return %1, %2, %4 : tensor<i32>, tensor<2xf32>, tensor<2xf32>
  }
  // CHECK: stablehlo.concatenate %[[LOOP]]#1, %[[LOOP]]#2, dim = 0
  // CHECK: return %{{.*}}, %[[LOOP]]#3
  return %0#1, %0#2 : tensor<2xf32>, tensor<2xf32>
}
}

// -----

// A branch that gives ranks what differs, and one that gives them the same.

// CHECK-LABEL: module @branches
module @branches {
sdy.mesh @mesh = <["x"=2]>

func.func @main(%p: tensor<i1>, %x: tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %y: tensor<2xf32>)
    -> (tensor<2xf32> {scalify.whole_type = tensor<4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<2xf32>) {
  // CHECK: %[[IF:.*]]:3 = "stablehlo.if"(%{{.*}}) ({
  // CHECK-NEXT: %[[N0:.*]] = stablehlo.negate
  // CHECK-NEXT: %[[N1:.*]] = stablehlo.negate
  // CHECK-NEXT: stablehlo.return %[[N0]], %[[N1]], %[[Y:.*]] :
  // CHECK: stablehlo.return %[[Y]], %[[Y]], %[[Y]] :
  %0:2 = "stablehlo.if"(%p) ({
    %1 = stablehlo.negate %x : tensor<2xf32>
    stablehlo.return %1, %y : tensor<2xf32>, tensor<2xf32>
  }, {
    stablehlo.return %y, %y : tensor<2xf32>, tensor<2xf32>
  }) : (tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>)
  // CHECK: stablehlo.concatenate %[[IF]]#0, %[[IF]]#1
  // CHECK: return %{{.*}}, %[[IF]]#2
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}
}

// -----

// Parts along two dimensions, of an axis for each; state that was narrowed.

// CHECK-LABEL: module @two_dimensions
module @two_dimensions {
sdy.mesh @mesh = <["a"=1, "b"=2]>

// CHECK: func.func @main(%{{.*}}: tensor<2x4xf16>
func.func @main(%x: tensor<2x2xf16> {scalify.whole_type = tensor<2x4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>})
    -> (tensor<2x2xf16> {scalify.whole_type = tensor<2x4xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}) {
  // CHECK: %[[X0:.*]] = stablehlo.slice %{{.*}} [0:2, 0:2]
  // CHECK: %[[X1:.*]] = stablehlo.slice %{{.*}} [0:2, 2:4]
  // CHECK: stablehlo.concatenate %[[X0]], %[[X1]], dim = 1
  return %x : tensor<2x2xf16>
}
}
