// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// What the backward reads of the forward is cast once; statistics, what is
// compared, and what only repeats a smaller value are not.
// A step that trains has a product in its backward; that of %n is one which no
// recipe casts.
// CHECK-LABEL: func.func @saved
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func @saved(%x: tensor<4x8xf32>, %gain: tensor<8xf32>, %n: tensor<2x2xi32>) -> (tensor<4x8xf32>, tensor<4x8xi1>, tensor<2x2xi32>) {
    // CHECK: %[[GAINS:.*]] = stablehlo.broadcast_in_dim %arg1
    %gains = stablehlo.broadcast_in_dim %gain, dims = [1] {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : (tensor<8xf32>) -> tensor<4x8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    // CHECK: %[[Y:.*]] = stablehlo.tanh
    // CHECK: %[[Q:.*]] = scalify.quantize %[[Y]], {{.*}} -> tensor<4x8xf16>
    // CHECK: %[[D:.*]] = scalify.dequantize %[[Q]]
    %y = stablehlo.tanh %x {scalify.phase = #scalify.phase<forward>, scalify.scale = -1 : i32} : tensor<4x8xf32>
    // CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[Y]]
    %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] {scalify.phase = #scalify.phase<forward>, scalify.scale = 1 : i32} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    // CHECK: %[[WIDE:.*]] = stablehlo.broadcast_in_dim %[[SUM]]
    %wide = stablehlo.broadcast_in_dim %sum, dims = [0] {scalify.phase = #scalify.phase<forward>, scalify.scale = 1 : i32} : (tensor<4xf32>) -> tensor<4x8xf32>
    // CHECK: %[[C:.*]] = stablehlo.cosine
    // CHECK-NOT: scalify.quantize
    %c = stablehlo.cosine %x {scalify.phase = #scalify.phase<forward>, scalify.scale = -1 : i32} : tensor<4x8xf32>
    %mask = stablehlo.compare EQ, %c, %wide {scalify.phase = #scalify.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    // CHECK: stablehlo.multiply %[[D]], %[[WIDE]]
    %g = stablehlo.multiply %y, %wide {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    // CHECK: stablehlo.multiply %{{.*}}, %[[C]]
    %h = stablehlo.multiply %g, %c {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    // CHECK: stablehlo.multiply %{{.*}}, %[[GAINS]]
    %k = stablehlo.multiply %h, %gains {scalify.phase = #scalify.phase<backward>} : tensor<4x8xf32>
    %trained = stablehlo.dot_general %n, %n, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    return %k, %mask, %trained : tensor<4x8xf32>, tensor<4x8xi1>, tensor<2x2xi32>
  }
}

// -----

// What ranks gather of an argument that they keep in shares is that argument,
// which one that has it whole keeps as it is, too.
// CHECK-LABEL: func.func @gathered
module attributes {scalify.recipe = #scalify.recipe<"bf16">} {
  func.func @gathered(%x: tensor<8xf32>, %share: tensor<4xf32>, %n: tensor<2x2xi32>) -> (tensor<8xf32>, tensor<2x2xi32>) {
    // CHECK: %[[ALL:.*]] = "stablehlo.all_gather"
    %all = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : (tensor<4xf32>) -> tensor<8xf32>
    // CHECK: %[[Y:.*]] = stablehlo.multiply %arg0, %[[ALL]]
    // CHECK: %[[Q:.*]] = scalify.quantize %[[Y]]
    // CHECK-NOT: scalify.quantize
    %y = stablehlo.multiply %x, %all {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : tensor<8xf32>
    %g = stablehlo.multiply %y, %all {scalify.phase = #scalify.phase<backward>} : tensor<8xf32>
    %trained = stablehlo.dot_general %n, %n, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
    return %g, %trained : tensor<8xf32>, tensor<2x2xi32>
  }
}

// -----

// An evaluation may return what has the type of an argument: without a product
// behind it, nothing is kept for a backward.
// CHECK-LABEL: func.func @no_backward
// CHECK-NOT: scalify.quantize
module attributes {scalify.recipe = #scalify.recipe<"bf16">} {
  func.func @no_backward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<f32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.exponential %x {scalify.phase = #scalify.phase<forward>, scalify.scale = 0 : i32} : tensor<8xf32>
    %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] {scalify.phase = #scalify.phase<forward>, scalify.scale = 3 : i32} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %r = stablehlo.reverse %y, dims = [0] {scalify.phase = #scalify.phase<backward>} : tensor<8xf32>
    return %r, %sum : tensor<8xf32>, tensor<f32>
  }
}

// -----

// A parameter at its declared scale, the first moment at the scale of what is
// written, the second as its root with half the exponent.
// CHECK-LABEL: func.func @state
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func @state(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = -5 : i32},
                   %m: tensor<4xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<moment>},
                   %v: tensor<4xf32> {tf.aliasing_output = 2 : i32, scalify.role = #scalify.role<moment>},
                   %count: tensor<f32> {tf.aliasing_output = 3 : i32, scalify.role = #scalify.role<state>},
                   %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
    // CHECK-DAG: %[[SW:.*]] = stablehlo.constant dense<3.125000e-02> : tensor<f32>
    // CHECK-DAG: %[[SM:.*]] = stablehlo.constant dense<9.765625E-4> : tensor<f32>
    // CHECK-DAG: %[[SV:.*]] = stablehlo.constant dense<4.8828125E-4> : tensor<f32>
    %half_m = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_m = stablehlo.multiply %m, %half_m : tensor<4xf32>
    %m1 = stablehlo.add %kept_m, %g {scalify.scale = -10 : i32} : tensor<4xf32>
    %gg = stablehlo.multiply %g, %g {scalify.scale = -21 : i32} : tensor<4xf32>
    %half_v = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_v = stablehlo.multiply %v, %half_v : tensor<4xf32>
    %v1 = stablehlo.add %kept_v, %gg {scalify.scale = -21 : i32} : tensor<4xf32>
    %r = stablehlo.sqrt %v1 {scalify.scale = -10 : i32} : tensor<4xf32>
    %u = stablehlo.divide %m1, %r {scalify.scale = 0 : i32} : tensor<4xf32>
    %w1 = stablehlo.subtract %w, %u {scalify.scale = -3 : i32} : tensor<4xf32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %count1 = stablehlo.add %count, %one : tensor<f32>
    // CHECK: %[[M1:.*]] = stablehlo.add
    // CHECK: %[[QM:.*]] = scalify.quantize %[[M1]], %[[SM]] {{.*}} -> tensor<4xf16>
    // CHECK: %[[DM:.*]] = scalify.dequantize %[[QM]], %[[SM]]
    // CHECK: %[[VKEPT:.*]] = stablehlo.multiply %arg2
    // CHECK: %[[V1:.*]] = stablehlo.add %[[VKEPT]]
    // CHECK: %[[W1:.*]] = stablehlo.subtract
    // CHECK: %[[QW:.*]] = scalify.quantize %[[W1]], %[[SW]] {{.*}} -> tensor<4xf16>
    // CHECK: %[[DW:.*]] = scalify.dequantize %[[QW]], %[[SW]]
    // CHECK: %[[COUNT:.*]] = stablehlo.add %arg3
    // CHECK: %[[ROOT:.*]] = stablehlo.sqrt %[[V1]] {scalify.phase = #scalify.phase<optimizer>}
    // CHECK: %[[LEAST:.*]] = stablehlo.multiply
    // CHECK: %[[MAX:.*]] = stablehlo.maximum %[[ROOT]], %[[LEAST]]
    // CHECK: %[[QV:.*]] = scalify.quantize %[[MAX]], %[[SV]] {{.*}} -> tensor<4xf16>
    // CHECK: %[[DV:.*]] = scalify.dequantize %[[QV]], %[[SV]]
    // CHECK: %[[SQUARE:.*]] = stablehlo.multiply %[[DV]], %[[DV]]
    // CHECK: return %[[DW]], %[[DM]], %[[SQUARE]], %[[COUNT]]
    return %w1, %m1, %v1, %count1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>
  }
}
