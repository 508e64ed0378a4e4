// RUN: scalify-opt %s --scalify-prepare-plan=phase-distance=1 --scalify-form-gemms --scalify-form-plan=phase-distance=1 --scalify-assign-buffers | FileCheck %s

// A value that the forward rounds for the backward lies in memory as F16 alone: the wide one is made beside
// the GEMM that reads it, and not by the kernel of the forward, although that walks the same elements.
// CHECK: plan.kernel "quantize_exponential" {{.*}} writes({{.*}} : memref<64x64xf32>, memref<64x64xf16>)
// CHECK: plan.gemm
// CHECK: plan.kernel "dequantize"
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<64x64xf16>
// CHECK: plan.gemm
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %scale = stablehlo.constant dense<1.0> : tensor<f32>
  %e = stablehlo.exponential %x {scalify.phase = "forward"} : tensor<64x64xf32>
  %q = scalify.quantize %e, %scale {scalify.phase = "forward"} : tensor<64x64xf32> -> tensor<64x64xf16>
  %kept = scalify.dequantize %q, %scale {scalify.phase = "forward"} : tensor<64x64xf16> -> tensor<64x64xf32>
  %y = stablehlo.dot_general %e, %w, contracting_dims = [1] x [0] {scalify.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g = stablehlo.tanh %y {scalify.phase = "backward"} : tensor<64x64xf32>
  %d = stablehlo.dot_general %kept, %g, contracting_dims = [0] x [0] {scalify.phase = "backward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y, %d : tensor<64x64xf32>, tensor<64x64xf32>
}
