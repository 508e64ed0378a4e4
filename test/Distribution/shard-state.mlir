// RUN: scalify-opt %s --scalify-shard-state=level=3 --split-input-file -verify-diagnostics | FileCheck %s
// RUN: scalify-opt %s --scalify-shard-state=level=1 --split-input-file | FileCheck %s --check-prefix=KEPT

// Momentum: 128 elements, 64 a rank. The sum of the gradient over ranks, moved
// before it is read, becomes a reduce-scatter of what is moved.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:.*]]: tensor<64xf32> {scalify.flat = {parts = [array<i64>, array<i64>], whole = tensor<8x16xf32>}, scalify.parts = [array<i64: 1, 2>], scalify.role = #scalify.role<param>, scalify.whole_type = tensor<128xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>
// CHECK-SAME: %[[M:.*]]: tensor<64xf32> {scalify.flat
// CHECK-SAME: %[[G:.*]]: tensor<16x8xf32>)
// CHECK-SAME: -> (tensor<64xf32> {scalify.flat = {{.*}}}, tensor<64xf32> {scalify.flat = {{.*}}})
// CHECK: %[[T:.*]] = stablehlo.transpose %[[G]], dims = [1, 0]
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[T]] : (tensor<8x16xf32>) -> tensor<128xf32>
// CHECK: %[[SUM:.*]] = "stablehlo.reduce_scatter"(%[[ROW]])
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1]]>
// CHECK: (tensor<128xf32>) -> tensor<64xf32>
// CHECK: %[[MOVED:.*]] = stablehlo.add %[[M]], %[[SUM]] : tensor<64xf32>
// CHECK: %[[NEXT:.*]] = stablehlo.subtract %[[W]], %[[MOVED]] : tensor<64xf32>
// CHECK: return %[[NEXT]], %[[MOVED]]
// CHECK-NOT: all_reduce

// Parameters are whole between steps.
// KEPT-LABEL: func.func @main
// KEPT-SAME: %[[W:.*]]: tensor<8x16xf32> {scalify.role = #scalify.role<param>
// KEPT-SAME: %[[M:.*]]: tensor<64xf32> {scalify.flat
// KEPT-SAME: -> (tensor<8x16xf32>, tensor<64xf32> {scalify.flat
// KEPT: %[[OWN:.*]] = stablehlo.dynamic_slice %{{.*}}, %{{.*}}, sizes = [64]
// KEPT: %[[NEXT:.*]] = stablehlo.subtract %[[OWN]], %{{.*}} : tensor<64xf32>
// KEPT: %[[ALL:.*]] = "stablehlo.all_gather"(%[[NEXT]])
// KEPT: %[[WHOLE:.*]] = stablehlo.reshape %[[ALL]] : (tensor<128xf32>) -> tensor<8x16xf32>
// KEPT: return %[[WHOLE]]
func.func @main(%w: tensor<8x16xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
                %m: tensor<8x16xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 1 : i32},
                %g: tensor<16x8xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.add %m, %1 : tensor<8x16xf32>
  %3 = stablehlo.subtract %w, %2 : tensor<8x16xf32>
  return %3, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// 10 elements on 4 ranks: 3 each, the last with 2 that stand for nothing. The
// norm sums chunks, of one element here, in the order of all: it does not see
// how many ranks there are.

sdy.mesh @mesh = <["data"=4]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[M:.*]]: tensor<3xf32> {{.*}}scalify.whole_type = tensor<12xf32>
// CHECK: %[[ROW:.*]] = stablehlo.pad %{{.*}}, low = [0], high = [2], interior = [0] {scalify.fills_shares} : (tensor<10xf32>, tensor<f32>) -> tensor<12xf32>
// CHECK: %[[G:.*]] = "stablehlo.reduce_scatter"(%[[ROW]])
// CHECK: %[[SQUARE:.*]] = stablehlo.multiply %[[G]], %[[G]] : tensor<3xf32>
// CHECK: %[[CHUNKS:.*]] = stablehlo.reshape %[[SQUARE]] : (tensor<3xf32>) -> tensor<3x1xf32>
// CHECK: %[[SUMS:.*]] = stablehlo.reduce(%[[CHUNKS]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK: %[[GATHERED:.*]] = "stablehlo.all_gather"(%[[SUMS]])
// CHECK: %[[ALL:.*]] = stablehlo.slice %{{.*}} [0:10]
// CHECK: %[[NORM:.*]] = stablehlo.reduce(%[[ALL]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK: %[[SHARED:.*]] = stablehlo.broadcast_in_dim %[[NORM]], dims = [] : (tensor<f32>) -> tensor<3xf32>
// CHECK: %[[CLIPPED:.*]] = stablehlo.divide %[[G]], %[[SHARED]] : tensor<3xf32>
// CHECK: return
// CHECK-NOT: all_reduce
func.func @main(%m: tensor<10xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
                %g: tensor<10xf32>) -> tensor<10xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<10xf32>) -> tensor<10xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<10xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<10xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<10xf32>
  %4 = stablehlo.divide %0, %3 : tensor<10xf32>
  %5 = stablehlo.add %m, %4 : tensor<10xf32>
  return %5 : tensor<10xf32>
}

// -----

// Ranks that have other parts of a value share what they have alike with those
// of their group. A sum that something else reads whole stays, and is said.

sdy.mesh @mesh = <["data"=2, "tensor"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<4xf32> {scalify.flat = {parts = [array<i64: 1, 2>], whole = tensor<16xf32>}, scalify.parts = [array<i64: 1, 2, 2, 2>], scalify.role = #scalify.role<moment>, scalify.whole_type = tensor<16xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"tensor", "data"}]>
// CHECK: "stablehlo.reduce_scatter"
// CHECK-SAME: replica_groups = dense<{{\[\[}}0, 2], [1, 3]]>
// CHECK: "stablehlo.all_reduce"
func.func @main(%m: tensor<8xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32, scalify.whole_type = tensor<16xf32>, scalify.parts = [array<i64: 1, 2>], sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>},
                %g: tensor<8xf32>) -> (tensor<8xf32> {scalify.whole_type = tensor<16xf32>, scalify.parts = [array<i64: 1, 2>], sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}]>}, tensor<8xf32>) {
  // expected-remark @+1 {{is both all-reduced and reduce-scattered: something reads the whole sum}}
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.add %m, %0 : tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %{{.*}}: tensor<4x4xf32>
// expected-remark @+1 {{stays whole on every rank: it is not computed element by element from a sum over ranks}}
func.func @main(%m: tensor<4x4xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32}, %g: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %m, %g, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// With weight decay the update of a parameter reads it and the sum: on shares.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// KEPT-LABEL: func.func @main
// KEPT-NOT: all_reduce
// KEPT: reduce_scatter
// KEPT: stablehlo.multiply %{{.*}} : tensor<64xf32>
// KEPT-NOT: all_reduce
// KEPT: return
func.func @main(%w: tensor<128xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
                %g: tensor<128xf32>) -> tensor<128xf32> {
  %rate = stablehlo.constant dense<0.5> : tensor<128xf32>
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<128xf32>) -> tensor<128xf32>
  %1 = stablehlo.multiply %w, %rate : tensor<128xf32>
  %2 = stablehlo.add %0, %1 : tensor<128xf32>
  %3 = stablehlo.subtract %w, %2 : tensor<128xf32>
  return %3 : tensor<128xf32>
}

// -----

// What fills up kept shares may be anything after an update: a sum over them is
// of the gathered value, and a remark says so.

sdy.mesh @mesh = <["data"=4]>

// CHECK-LABEL: func.func @main
// CHECK: %[[WHOLE:.*]] = "stablehlo.all_gather"(%arg0)
// CHECK: %[[CUT:.*]] = stablehlo.slice %[[WHOLE]] [0:10]
// CHECK: %[[ROW:.*]] = stablehlo.reshape %[[CUT]]
// CHECK: stablehlo.add %[[ROW]]
// CHECK: stablehlo.reduce({{.*}} : (tensor<10xf32>, tensor<f32>) -> tensor<f32>
func.func @main(
    // expected-remark @+1 {{is sharded, but all-gathered in every step, since an unsharded use remains}}
    %m: tensor<10xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
    %g: tensor<10xf32>) -> (tensor<10xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-remark @+1 {{is both all-reduced and reduce-scattered}}
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<10xf32>) -> tensor<10xf32>
  %1 = stablehlo.add %m, %0 : tensor<10xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<10xf32>, tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<10xf32>, tensor<f32>
}

// -----

// A maximum with zero is no move, along whatever dimension: it stays behind the
// sum, and on shares nothing is known of it.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = "stablehlo.all_reduce"(%arg1)
// CHECK: stablehlo.reduce(%[[SUM]] init: %{{.*}}) applies stablehlo.maximum
func.func @main(
    // expected-remark @+1 {{stays whole on every rank: it is not computed element by element}}
    %m: tensor<4xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
    %g: tensor<1x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.add %m, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Ranks that sum have different parts already: they are no copies to share.

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %{{.*}}: tensor<4xf32> {scalify.role = #scalify.role<param>
// CHECK: "stablehlo.all_reduce"
// CHECK-NOT: reduce_scatter
func.func @main(
    // expected-remark @+1 {{stays as it is: it is already sharded over the ranks that sum}}
    %e: tensor<4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32, sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>},
    %g: tensor<4xf32>) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) {
  %0 = "stablehlo.all_reduce"(%g) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %e, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The gradient of stacked layers, which a loop writes: each layer's 10 elements
// are cut for 4 ranks, and so is state of this shape. The norm sums chunks of
// each slice.

sdy.mesh @mesh = <["data"=4]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[M:.*]]: tensor<2x3xf32> {scalify.flat = {parts = [array<i64>, array<i64>, array<i64>], whole = tensor<2x2x5xf32>}, scalify.parts = [array<i64>, array<i64: 1, 4>], {{.*}}scalify.whole_type = tensor<2x12xf32>, sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>
// CHECK: %[[LOOP:.*]]:2 = stablehlo.while
// CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[LOOP]]#1 : (tensor<2x2x5xf32>) -> tensor<2x10xf32>
// CHECK: %[[FILLED:.*]] = stablehlo.pad %[[ROWS]], %{{.*}}, low = [0, 0], high = [0, 2]
// CHECK: %[[SUM:.*]] = "stablehlo.reduce_scatter"(%[[FILLED]])
// CHECK-SAME: scatter_dimension = 1
// CHECK: (tensor<2x12xf32>) -> tensor<2x3xf32>
// CHECK: %[[CHUNKS:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
// CHECK: stablehlo.reduce(%[[CHUNKS]] {{.*}} across dimensions = [2]
// CHECK: "stablehlo.all_gather"({{.*}} (tensor<2x3xf32>) -> tensor<2x12xf32>
// CHECK: stablehlo.slice %{{.*}} [0:2, 0:10]
// CHECK: stablehlo.reduce({{.*}} across dimensions = [0, 1]
// CHECK: stablehlo.add %[[M]], %[[SUM]] : tensor<2x3xf32>
func.func @main(%m: tensor<2x2x5xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
                %dy: tensor<1x2x5xf32>) -> (tensor<2x2x5xf32>, tensor<f32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x5xf32>
  %0:2 = stablehlo.while(%i = %c0, %stack = %zeros) : tensor<i32>, tensor<2x2x5xf32>
  cond {
    %more = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.dynamic_update_slice %stack, %dy, %i, %c0, %c0 : (tensor<2x2x5xf32>, tensor<1x2x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x5xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<2x2x5xf32>
  }
  %g = "stablehlo.all_reduce"(%0#1) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %square = stablehlo.multiply %g, %g : tensor<2x2x5xf32>
  %norm = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x2x5xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.add %m, %g : tensor<2x2x5xf32>
  return %1, %norm : tensor<2x2x5xf32>, tensor<f32>
}

// -----

// A parameter whose loop reads it in another shape: the slices are the same.

sdy.mesh @mesh = <["data"=4]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xf32> {scalify.flat = {{.*}}whole = tensor<2x10xf32>
// CHECK: "stablehlo.reduce_scatter"
// CHECK: (tensor<2x12xf32>) -> tensor<2x3xf32>
// CHECK-NOT: all_reduce
func.func @main(%m: tensor<2x10xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
                %dy: tensor<1x2x5xf32>) -> tensor<2x10xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x5xf32>
  %0:2 = stablehlo.while(%i = %c0, %stack = %zeros) : tensor<i32>, tensor<2x2x5xf32>
  cond {
    %more = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.dynamic_update_slice %stack, %dy, %i, %c0, %c0 : (tensor<2x2x5xf32>, tensor<1x2x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x5xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<2x2x5xf32>
  }
  %g = "stablehlo.all_reduce"(%0#1) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %r = stablehlo.reshape %g : (tensor<2x2x5xf32>) -> tensor<2x10xf32>
  %1 = stablehlo.negate %r : tensor<2x10xf32>
  %2 = stablehlo.add %m, %1 : tensor<2x10xf32>
  return %2 : tensor<2x10xf32>
}

// -----

// An update of all elements in a row: the stack is cut as a whole, and its sum is
// exchanged once.

sdy.mesh @mesh = <["data"=4]>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<5xf32> {scalify.flat = {{.*}}whole = tensor<2x2x5xf32>
// CHECK: "stablehlo.reduce_scatter"
// CHECK: (tensor<20xf32>) -> tensor<5xf32>
// CHECK-NOT: all_reduce
func.func @main(%m: tensor<2x2x5xf32> {scalify.role = #scalify.role<moment>, tf.aliasing_output = 0 : i32},
                %dy: tensor<1x2x5xf32>) -> tensor<2x2x5xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x5xf32>
  %0:2 = stablehlo.while(%i = %c0, %stack = %zeros) : tensor<i32>, tensor<2x2x5xf32>
  cond {
    %more = stablehlo.compare LT, %i, %c2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.dynamic_update_slice %stack, %dy, %i, %c0, %c0 : (tensor<2x2x5xf32>, tensor<1x2x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x5xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<2x2x5xf32>
  }
  %g = "stablehlo.all_reduce"(%0#1) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %r = stablehlo.reshape %g : (tensor<2x2x5xf32>) -> tensor<20xf32>
  %1 = stablehlo.negate %r : tensor<20xf32>
  %2 = stablehlo.reshape %1 : (tensor<20xf32>) -> tensor<2x2x5xf32>
  %3 = stablehlo.add %m, %2 : tensor<2x2x5xf32>
  return %3 : tensor<2x2x5xf32>
}
