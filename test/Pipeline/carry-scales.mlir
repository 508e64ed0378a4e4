// The scales of casts are an argument and a result of the step, or constants,
// and the compiler says how many of these may clip.
//
// RUN: scalify-compile %s -o - --compile-to=precision --recipe=fp8 --declared-scales --remarks 2>&1 | FileCheck %s
// RUN: scalify-compile %s -o - --compile-to=precision --recipe=fp8 --declared-scales --cast-scales=static --remarks 2>&1 | FileCheck %s --check-prefix=STATIC
// RUN: scalify-compile %s -o - --compile-to=precision --recipe=fp8 --declared-scales --adapt-scales --remarks 2>&1 | FileCheck %s --check-prefix=ADAPT
// RUN: not scalify-compile %s -o - --cast-scales=moved 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK-NOT: constant scales
// CHECK: scalify.name = "scalify.carried_scales"
// STATIC: remark: 2 casts keep the constant scales of the first step
// STATIC-NOT: scalify.carried_scales
// ADAPT-NOT: constant scales
// ADAPT: scalify.name = "scalify.scales"
// ADAPT-NOT: scalify.carried_scales
// UNKNOWN: Cannot find option named 'moved'!
func.func public @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x8xf32>) -> tensor<16x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %1 = stablehlo.tanh %0 : tensor<16x32xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %2 : tensor<16x8xf32>
}
