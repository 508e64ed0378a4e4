// RUN: scalify-opt %s --scalify-form-plan -split-input-file | FileCheck %s

// A softmax is one kernel: two sums of rows and what is computed from them.
// CHECK-LABEL: plan.program @step
// CHECK-COUNT-1: plan.kernel
// CHECK: stablehlo.reduce
// CHECK: stablehlo.exponential
// CHECK: stablehlo.reduce
// CHECK: stablehlo.divide
// CHECK-NOT: plan.kernel
func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %l = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %l) applies stablehlo.maximum across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %d = stablehlo.subtract %x, %mb : tensor<8x64xf32>
  %e = stablehlo.exponential %d : tensor<8x64xf32>
  %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %y = stablehlo.divide %e, %sb : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// A quantized value and the dequantized one leave the same kernel; the scale
// is memory, so that another layer's scale needs no code of its own.
// CHECK-LABEL: plan.program @step
// CHECK: %[[S:.*]] = plan.constant dense<2.500000e-01>
// CHECK: plan.kernel "{{.*}}" reads(%{{.*}}, %[[S]] : memref<64xf32>, memref<f32>) writes(%{{.*}}, %{{.*}} : memref<64xf8E4M3FN>, memref<64xf32>)
// CHECK-SAME: plan.casts = [{cast = "x", elements = 64 : i64
// CHECK: scalify.quantize %{{.*}}, %{{.*}} {plan.exact_reciprocal}
func.func @main(%x: tensor<64xf32>) -> (tensor<64xf8E4M3FN>, tensor<64xf32>) {
  %s = stablehlo.constant dense<0.25> : tensor<f32>
  %y = stablehlo.tanh %x : tensor<64xf32>
  %q = scalify.quantize %y, %s {cast = "x"} : tensor<64xf32> -> tensor<64xf8E4M3FN>
  %w = scalify.dequantize %q, %s : tensor<64xf8E4M3FN> -> tensor<64xf32>
  return %q, %w : tensor<64xf8E4M3FN>, tensor<64xf32>
}

// -----

// A scale of exponent bits alone is a power of two too; one of other bits need not be.
// CHECK-LABEL: plan.program @step
// CHECK: scalify.quantize %{{.*}}, %{{.*}} {plan.exact_reciprocal}
// CHECK: scalify.quantize %{{.*}}, %{{[^{]*}} :
func.func @main(%x: tensor<64xf32>, %y: tensor<32xf32>, %s: tensor<f32>) -> (tensor<64xf8E4M3FN>, tensor<32xf8E4M3FN>) {
  %exponent = stablehlo.constant dense<0x7F800000> : tensor<i32>
  %more = stablehlo.constant dense<0x7FC00000> : tensor<i32>
  %word = stablehlo.bitcast_convert %s : (tensor<f32>) -> tensor<i32>
  %a = stablehlo.and %word, %exponent : tensor<i32>
  %e = stablehlo.bitcast_convert %a : (tensor<i32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %is = stablehlo.compare LE, %e, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %p = stablehlo.select %is, %e, %one : tensor<i1>, tensor<f32>
  %b = stablehlo.and %word, %more : tensor<i32>
  %n = stablehlo.bitcast_convert %b : (tensor<i32>) -> tensor<f32>
  %q = scalify.quantize %x, %p {cast = "x"} : tensor<64xf32> -> tensor<64xf8E4M3FN>
  %r = scalify.quantize %y, %n {cast = "y"} : tensor<32xf32> -> tensor<32xf8E4M3FN>
  return %q, %r : tensor<64xf8E4M3FN>, tensor<32xf8E4M3FN>
}

// -----

// The donated argument is written in place; where it is read later it is not.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "add" reads(%[[A:.*]] : memref<4xf32>) writes(%[[R:.*]] : memref<4xf32>) attributes {inplace = array<i64: 0, 0>
// CHECK: plan.kernel "reverse"
// CHECK: plan.copy
func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32},
                %b: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  %1 = stablehlo.reverse %b, dims = [0] : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// What a GEMM reads is memory; a cheap op with two readers is computed twice.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "tanh"
// CHECK: plan.gemm
// CHECK: plan.kernel {{.*}}writes(%{{.*}} : memref<8x8xf32>)
// CHECK-NOT: plan.kernel
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %t = stablehlo.tanh %x : tensor<8x8xf32>
  %d = plan.matmul %t, %x m 8 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = stablehlo.negate %d : tensor<8x8xf32>
  %s = stablehlo.add %n, %t : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// -----

// Rows of the reduction are parts of the quotient's: two kernels, since a loop
// over the quotient's rows would reduce again for every element.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel {{.*}}writes({{.*}} : memref<8x128x6xf32>)
// CHECK: stablehlo.reduce
// CHECK: plan.kernel {{.*}}writes({{.*}} : memref<8x128x768xf32>)
// CHECK-NOT: stablehlo.reduce
func.func @main(%x: tensor<8x128x768xf32>) -> tensor<8x128x768xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.abs %x : tensor<8x128x768xf32>
  %b = stablehlo.reshape %a : (tensor<8x128x768xf32>) -> tensor<8x128x6x128xf32>
  %r = stablehlo.reduce(%b init: %zero) applies stablehlo.maximum across dimensions = [3] : (tensor<8x128x6x128xf32>, tensor<f32>) -> tensor<8x128x6xf32>
  %s = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<8x128x6xf32>) -> tensor<8x128x6x128xf32>
  %t = stablehlo.reshape %s : (tensor<8x128x6x128xf32>) -> tensor<8x128x768xf32>
  %y = stablehlo.divide %x, %t : tensor<8x128x768xf32>
  return %y : tensor<8x128x768xf32>
}

// -----

// A stack: GEMM and kernel write their pieces where they lie in it, what is
// there already is copied. A reader has one buffer, whatever the pieces.
// CHECK-LABEL: plan.program @step
// CHECK: %[[X:.*]] = plan.argument 0 : memref<8x8xf32>
// CHECK: %[[S:.*]] = plan.temp : memref<3x8x8xf32>
// CHECK: %[[A:.*]] = plan.temp part of %[[S]] : memref<3x8x8xf32> from 0 : memref<8x8xf32>
// CHECK: %[[B:.*]] = plan.temp part of %[[S]] : memref<3x8x8xf32> from 256 : memref<8x8xf32>
// CHECK: %[[C:.*]] = plan.temp part of %[[S]] : memref<3x8x8xf32> from 512 : memref<8x8xf32>
// CHECK-DAG: plan.gemm "dot" %[[X]], %[[X]], %[[A]]
// CHECK-DAG: plan.kernel "tanh" {{.*}} writes(%[[B]]
// CHECK-DAG: plan.copy %[[X]] to %[[C]]
// CHECK: plan.kernel "negate" reads(%[[S]] : memref<3x8x8xf32>)
func.func @main(%x: tensor<8x8xf32>) -> tensor<3x8x8xf32> {
  %d = plan.matmul %x, %x m 8 n 8 k 8 strides [8, 1] x [8, 1] to [8, 1] offsets [0, 0, 0] batch [] [] alpha 1.0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = stablehlo.tanh %x : tensor<8x8xf32>
  %0 = stablehlo.reshape %d : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %1 = stablehlo.reshape %t : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %2 = stablehlo.reshape %x : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %s = stablehlo.concatenate %0, %1, %2, dim = 0 {plan.stack} : (tensor<1x8x8xf32>, tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<3x8x8xf32>
  %n = stablehlo.negate %s : tensor<3x8x8xf32>
  return %n : tensor<3x8x8xf32>
}

// -----

// A collective is a command on whole buffers; kernels around it do the rest.
// The number of the rank is memory.

// CHECK-LABEL: plan.program @step
// CHECK: %[[X:.*]] = plan.argument 0
// CHECK: %[[RANK:.*]] = plan.rank : memref<ui32>
// CHECK: plan.kernel {{.*}} writes(%[[PART:.*]] : memref<8xf32>)
// CHECK: plan.collective all_reduce sum %[[PART]] to %[[SUM:.*]] groups
// CHECK: plan.kernel {{.*}} reads({{.*}}%[[SUM]]
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %id = stablehlo.partition_id : tensor<ui32>
  %number = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %numbers = stablehlo.broadcast_in_dim %number, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %y = stablehlo.multiply %x, %numbers : tensor<8xf32>
  %sum = plan.communicate all_reduce sum %y groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<8xf32>) -> tensor<8xf32>
  %r = stablehlo.add %sum, %x : tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// What a scatter's update reads of its input is read as it was: the scatter
// works in a copy.
// CHECK-LABEL: plan.program @step
// CHECK: %[[X:.*]] = plan.argument 0 : memref<8xf32>
// CHECK: %[[Y:.*]] = plan.result 0 : memref<8xf32>
// CHECK: plan.copy %[[X]] to %[[Y]]
// CHECK: plan.kernel "slice_scatter" reads(%[[X]], %{{.*}}, %[[Y]] : memref<8xf32>, memref<1xi32>, memref<8xf32>) writes(%[[Y]] : memref<8xf32>) attributes {inplace = array<i64: 0, 2>
// CHECK: ^bb0(%[[OLD:.*]]: tensor<8xf32>, %[[AT:.*]]: tensor<1xi32>, %[[IN:.*]]: tensor<8xf32>):
// CHECK: %[[U:.*]] = stablehlo.slice %[[OLD]]
// CHECK: "stablehlo.scatter"(%[[IN]], %[[AT]], %[[U]])
func.func @main(%x: tensor<8xf32>, %at: tensor<1xi32>) -> tensor<8xf32> {
  %u = stablehlo.slice %x [0:7] : (tensor<8xf32>) -> tensor<7xf32>
  %y = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    stablehlo.return %new : tensor<f32>
  }) : (tensor<8xf32>, tensor<1xi32>, tensor<7xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A donated one works where it is, and nothing is copied, if its update reads
// something else.
// CHECK-LABEL: plan.program @step
// CHECK: %[[Y:.*]] = plan.result 0 aliases 0 : memref<8xf32>
// CHECK-NOT: plan.copy
// CHECK: plan.kernel "scatter{{.*}} reads(%{{.*}}, %{{.*}}, %[[Y]] : {{.*}}) writes(%[[Y]] : memref<8xf32>)
// CHECK-NOT: plan.copy
func.func @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %at: tensor<1xi32>, %u: tensor<7xf32>) -> tensor<8xf32> {
  %y = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    stablehlo.return %new : tensor<f32>
  }) : (tensor<8xf32>, tensor<1xi32>, tensor<7xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A reversal cannot be written where it is read, whatever selects it.
// CHECK-LABEL: plan.program @step
// CHECK: %[[X:.*]] = plan.argument 0 : memref<8xf32>
// CHECK: %[[Y:.*]] = plan.result 0 aliases 0 : memref<8xf32>
// CHECK: plan.kernel {{.*}} writes(%[[T:.*]] : memref<8xf32>) {
// CHECK: plan.copy %[[T]] to %[[Y]]
func.func @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %p: tensor<8xi1>) -> tensor<8xf32> {
  %r = stablehlo.reverse %x, dims = [0] : tensor<8xf32>
  %y = stablehlo.select %p, %r, %x : tensor<8xi1>, tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Scales stand behind what the scatter works in.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "{{.*}}scatter{{.*}}" reads({{[^:]*}} : memref<1xi32>, memref<7xf8E4M3FN>, memref<8xf32>, memref<f32>) writes({{.*}}) attributes {inplace = array<i64: 0, 2>
func.func @main(%x: tensor<8xf32>, %at: tensor<1xi32>, %q: tensor<7xf8E4M3FN>) -> tensor<8xf32> {
  %s = stablehlo.constant dense<0.25> : tensor<f32>
  %u = scalify.dequantize %q, %s : tensor<7xf8E4M3FN> -> tensor<7xf32>
  %y = "stablehlo.scatter"(%x, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, indices_are_sorted = true, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    stablehlo.return %new : tensor<f32>
  }) : (tensor<8xf32>, tensor<1xi32>, tensor<7xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
