// RUN: scalify-opt %s --scalify-prepare-plan=phase-distance=1 --scalify-form-gemms --scalify-form-plan=phase-distance=1 --scalify-assign-buffers -split-input-file | FileCheck %s

// A value that the forward rounds for the backward lies in memory as F16 alone: the wide one is made beside
// the GEMM that reads it, and not by the kernel of the forward, although that walks the same elements.
// CHECK-LABEL: plan.program @step
// CHECK: plan.kernel "quantize_exponential" {{.*}} writes({{.*}} : memref<64x64xf32>, memref<64x64xf16>)
// CHECK: plan.gemm
// CHECK: plan.kernel "dequantize"
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<64x64xf16>
// CHECK: plan.gemm
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %scale = stablehlo.constant dense<1.0> : tensor<f32>
  %e = stablehlo.exponential %x {scalify.phase = #scalify.phase<forward>} : tensor<64x64xf32>
  %q = scalify.quantize %e, %scale {scalify.phase = #scalify.phase<forward>} : tensor<64x64xf32> -> tensor<64x64xf16>
  %kept = scalify.dequantize %q, %scale {scalify.phase = #scalify.phase<forward>} : tensor<64x64xf16> -> tensor<64x64xf32>
  %y = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g = stablehlo.tanh %y {scalify.phase = #scalify.phase<backward>} : tensor<64x64xf32>
  %d = stablehlo.dot_general %kept, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %d : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A gradient that is stored narrow lies in memory so from the backward to the update: the norm and the update
// widen it in their own kernels.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm "dot" {{.*}} : memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>
// CHECK: plan.kernel {{.*}} writes({{.*}} : memref<64x64xf8E4M3FN>) {{.*}}plan.phase = "backward"
// CHECK-NOT: writes({{.*}}memref<64x64xf32>
// CHECK: plan.kernel {{.*}}memref<64x64xf8E4M3FN>{{.*}} writes({{.*}} : memref<f32>) {{.*}}plan.phase = "optimizer"
// CHECK: plan.kernel {{.*}}memref<64x64xf8E4M3FN>{{.*}} writes({{.*}} : memref<64x64xf32>) {{.*}}plan.phase = "optimizer"
func.func @main(%p: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<64x64xf32>, %g: tensor<64x64xf32>, %mu: tensor<f32>) -> tensor<64x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %scale = stablehlo.constant dense<0.5> : tensor<f32>
  %d = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = scalify.quantize %d, %scale {scalify.phase = #scalify.phase<backward>} : tensor<64x64xf32> -> tensor<64x64xf8E4M3FN>
  %w = scalify.dequantize %q, %scale {scalify.phase = #scalify.phase<backward>} : tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  %m = stablehlo.broadcast_in_dim %mu, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
  %gradient = stablehlo.multiply %w, %m : tensor<64x64xf32>
  %square = stablehlo.multiply %gradient, %gradient {scalify.phase = #scalify.phase<optimizer>} : tensor<64x64xf32>
  %norm = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [0, 1] {scalify.phase = #scalify.phase<optimizer>} : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
  %n = stablehlo.broadcast_in_dim %norm, dims = [] {scalify.phase = #scalify.phase<optimizer>} : (tensor<f32>) -> tensor<64x64xf32>
  %step = stablehlo.divide %gradient, %n {scalify.phase = #scalify.phase<optimizer>} : tensor<64x64xf32>
  %next = stablehlo.subtract %p, %step {scalify.phase = #scalify.phase<optimizer>} : tensor<64x64xf32>
  return %next : tensor<64x64xf32>
}

// -----

// The only reader of a narrow gradient is its update: the cast stays in the backward all the same.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm
// CHECK-NEXT: plan.kernel {{.*}} writes({{.*}} : memref<64x64xf8E4M3FN>)
// CHECK: plan.kernel {{.*}}memref<64x64xf8E4M3FN>{{.*}}plan.phase = "optimizer"
func.func @main(%p: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<64x64xf32>, %g: tensor<64x64xf32>, %other: tensor<64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %scale = stablehlo.constant dense<0.5> : tensor<f32>
  %d = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %q = scalify.quantize %d, %scale {scalify.phase = #scalify.phase<backward>} : tensor<64x64xf32> -> tensor<64x64xf8E4M3FN>
  %w = scalify.dequantize %q, %scale {scalify.phase = #scalify.phase<backward>} : tensor<64x64xf8E4M3FN> -> tensor<64x64xf32>
  %0 = stablehlo.tanh %other {scalify.phase = #scalify.phase<backward>} : tensor<64xf32>
  %next = stablehlo.subtract %p, %w {scalify.phase = #scalify.phase<optimizer>} : tensor<64x64xf32>
  return %next, %0 : tensor<64x64xf32>, tensor<64xf32>
}

// -----

// Zeros that a scatter adds to are made next to it.
// CHECK-LABEL: plan.program @step
// CHECK: plan.gemm
// CHECK: plan.kernel "broadcast"
// CHECK: plan.kernel "scatter"
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>, %at: tensor<64x1xi32>) -> tensor<256x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<256x64xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = "stablehlo.scatter"(%zeros, %at, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<256x64xf32>, tensor<64x1xi32>, tensor<64x64xf32>) -> tensor<256x64xf32>
  return %r : tensor<256x64xf32>
}
