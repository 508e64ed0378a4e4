// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8 remarks=0" --scalify-quantize -split-input-file | FileCheck %s --check-prefixes=CHECK,ROOM
// RUN: scalify-opt %s --scalify-decide-formats="recipe=fp8-current remarks=0" --scalify-quantize -split-input-file | FileCheck %s --check-prefix=CURRENT

// A gradient's predicted scale of 2^-4 becomes 2^-7; the weight's stays.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[WEIGHT:.*]] = stablehlo.constant dense<2.500000e-01>
// ROOM-DAG: %[[ROOM:.*]] = stablehlo.constant dense<7.812500e-03>
// ROOM-DAG: scalify.quantize %{{.*}}, %[[ROOM]] {{.*}}scalify.rule = "argument; 2^-3: room for gradients that fall"{{.*}} -> tensor<32x16xf8E5M2>
// CHECK-DAG: scalify.quantize %arg1, %[[WEIGHT]] {{.*}} -> tensor<16x64xf8E4M3FN>

// A scale that is measured needs none: it is the amax over the largest value.
// CURRENT-LABEL: func.func @main
// CURRENT-NOT: dense<7.812500e-03>
func.func @main(%arg0: tensor<32x16xf32>, %arg1: tensor<16x64xf32>) -> tensor<32x64xf32> {
  %g = stablehlo.constant dense<6.250000e-02> : tensor<f32>
  %w = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %dy = stablehlo.negate %arg0 {scalify.phase = #scalify.phase<backward>} : tensor<32x16xf32>
  %0 = scalify.scale_hint %dy, %g : tensor<32x16xf32>
  %1 = scalify.scale_hint %arg1, %w : tensor<16x64xf32>
  %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}
