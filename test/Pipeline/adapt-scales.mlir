// RUN: scalify-compile %s -o - --recipe=fp8 --compile-to=precision --adapt-scales | FileCheck %s
// RUN: scalify-compile %s -o - --recipe=fp8 --compile-to=scaling --rescale='tan.' | FileCheck %s --check-prefix=PLACE
// RUN: scalify-compile %s -o - --recipe=fp8 --compile-to=fusion --adapt-scales | FileCheck %s --check-prefix=PLAN

// The second function of the artefact, from the command line; it is planned as
// the step is. With constants there is no such function.
// CHECK: func.func public @main({{.*}}: tensor<4xf32> {scalify.casts = [
// CHECK: func.func @rescale(
// PLACE: scalify.measured_scale l2
// PLACE-NOT: @rescale
// PLAN: plan.program @step
// PLAN: plan.program @rescale
func.func public @main(%x: tensor<8x64xf32>, %w: tensor<64x8xf32>, %v: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = stablehlo.tanh %x : tensor<8x64xf32> loc("tanh")
  %z = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.dot_general %z, %v, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}
