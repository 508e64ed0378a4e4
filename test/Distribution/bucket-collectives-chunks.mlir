// RUN: scalify-opt %s --scalify-bucket-collectives=by-chunk --split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-bucket-collectives --split-input-file | FileCheck %s --check-prefix=ALL

sdy.mesh @mesh = <["data"=2]>

// Two weights of each of two chunks, gathered before a loop over micro-batches,
// in which one border is, and their gradients, summed behind it. What is of one
// chunk goes together, first the weights that are read first.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:[^:]*]]: tensor<2xf32>, %[[B:[^:]*]]: tensor<2xf32>, %[[C:[^:]*]]: tensor<2xf32>, %[[D:[^:]*]]: tensor<2xf32>
// CHECK-DAG: %[[A1:.*]] = stablehlo.reshape %[[A]]
// CHECK-DAG: %[[B1:.*]] = stablehlo.reshape %[[B]]
// CHECK: stablehlo.concatenate %[[A1]], %[[B1]], dim = 1
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<8xf32>
// CHECK-DAG: %[[C1:.*]] = stablehlo.reshape %[[C]]
// CHECK-DAG: %[[D1:.*]] = stablehlo.reshape %[[D]]
// CHECK: stablehlo.concatenate %[[C1]], %[[D1]], dim = 1
// CHECK: "stablehlo.all_gather"{{.*}} -> tensor<8xf32>
// CHECK: %[[SUMS:.*]]:5 = stablehlo.while
// CHECK-DAG: %[[GC:.*]] = stablehlo.reshape %[[SUMS]]#3
// CHECK-DAG: %[[GD:.*]] = stablehlo.reshape %[[SUMS]]#4
// CHECK: stablehlo.concatenate %[[GC]], %[[GD]], dim = 1
// CHECK: "stablehlo.all_reduce"
// CHECK-DAG: %[[GA:.*]] = stablehlo.reshape %[[SUMS]]#1
// CHECK-DAG: %[[GB:.*]] = stablehlo.reshape %[[SUMS]]#2
// CHECK: stablehlo.concatenate %[[GA]], %[[GB]], dim = 1
// CHECK: "stablehlo.all_reduce"
// CHECK-NOT: stablehlo.concatenate
// ALL-LABEL: func.func @main(
// ALL: stablehlo.concatenate %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dim = 1
// ALL: stablehlo.while
// ALL: stablehlo.concatenate %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dim = 1
// ALL-NOT: stablehlo.concatenate
func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>, %d: tensor<2xf32>, %x: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %fa = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %fc = "stablehlo.all_gather"(%c) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %fb = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %fd = "stablehlo.all_gather"(%d) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<2xf32>) -> tensor<4xf32>
  %sums:5 = stablehlo.while(%i = %i0, %sa = %zero, %sb = %zero, %sc = %zero, %sd = %zero) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %h1 = stablehlo.multiply %x, %fa : tensor<4xf32>
    %h2 = stablehlo.multiply %h1, %fb : tensor<4xf32>
    %h3 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %h2 : tensor<4xf32>
    %h4 = stablehlo.multiply %h3, %fc : tensor<4xf32>
    %h5 = stablehlo.multiply %h4, %fd : tensor<4xf32>
    %gd = stablehlo.multiply %h5, %h4 : tensor<4xf32>
    %gc = stablehlo.multiply %h5, %h3 : tensor<4xf32>
    %g3 = stablehlo.multiply %gc, %fc : tensor<4xf32>
    %g2 = stablehlo.optimization_barrier {scalify.stage_border = "backward"} %g3 : tensor<4xf32>
    %gb = stablehlo.multiply %g2, %h1 : tensor<4xf32>
    %ga = stablehlo.multiply %g2, %x : tensor<4xf32>
    %na = stablehlo.add %sa, %ga : tensor<4xf32>
    %nb = stablehlo.add %sb, %gb : tensor<4xf32>
    %nc = stablehlo.add %sc, %gc : tensor<4xf32>
    %nd = stablehlo.add %sd, %gd : tensor<4xf32>
    stablehlo.return %next, %na, %nb, %nc, %nd : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  %rc = "stablehlo.all_reduce"(%sums#3) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %ra = "stablehlo.all_reduce"(%sums#1) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %rd = "stablehlo.all_reduce"(%sums#4) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %rb = "stablehlo.all_reduce"(%sums#2) <{channel_handle = #stablehlo.channel_handle<handle = 8, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %ra, %rb, %rc, %rd : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["tensor"=2]>

// Micro-batches that are written out, side by side: sums of activations of one
// do not wait for those of the next, on either side of a border.
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-4: stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 1 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
// CHECK-NOT: stablehlo.concatenate
// ALL-LABEL: func.func @main(
// ALL-COUNT-2: stablehlo.concatenate %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dim = 1
// ALL-NOT: stablehlo.concatenate
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %u: tensor<4xf32>, %v: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %b0 = "stablehlo.all_reduce"(%u) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %b1 = "stablehlo.all_reduce"(%v) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %c0 = stablehlo.multiply %a0, %b0 : tensor<4xf32>
  %d0 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %c0 : tensor<4xf32>
  %e0 = stablehlo.tanh %d0 : tensor<4xf32>
  %f0 = stablehlo.cosine %d0 : tensor<4xf32>
  %c1 = stablehlo.multiply %a1, %b1 : tensor<4xf32>
  %d1 = stablehlo.optimization_barrier {scalify.stage_border = "forward"} %c1 : tensor<4xf32>
  %e1 = stablehlo.tanh %d1 : tensor<4xf32>
  %f1 = stablehlo.cosine %d1 : tensor<4xf32>
  %g0 = "stablehlo.all_reduce"(%e0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %h0 = "stablehlo.all_reduce"(%f0) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %g1 = "stablehlo.all_reduce"(%e1) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %h1 = "stablehlo.all_reduce"(%f1) <{channel_handle = #stablehlo.channel_handle<handle = 8, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %g0, %h0, %g1, %h1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
