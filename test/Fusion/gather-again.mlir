// RUN: scalify-opt %s --scalify-gather-again | FileCheck %s
// RUN: scalify-opt %s --scalify-gather-again=most-bytes=1500 | FileCheck %s --check-prefix=SOME
// RUN: scalify-opt %s --scalify-gather-again=most-bytes=0 | FileCheck %s --check-prefix=NONE

// Two layers' weights of 2 KiB each, in shares of two ranks: a gather adds the half. All are kept at
// first, the second one's no longer than between two reads that are near. The
// first one's would lie longest, and is what goes where 1,500 bytes may stay beside shares.

// CHECK: module attributes {plan.gathered_bytes = 2048 : i64}
// CHECK-COUNT-2: plan.communicate
// CHECK-NOT: plan.communicate

// SOME: %[[A:.*]] = plan.communicate all_gather none %arg0
// SOME: %[[WA:.*]] = stablehlo.reshape %[[A]]
// SOME: stablehlo.dot_general %arg2, %[[WA]]
// SOME: %[[B:.*]] = plan.communicate all_gather none %arg1
// SOME: %[[WB:.*]] = stablehlo.reshape %[[B]]
// SOME: stablehlo.dot_general %{{.*}}, %[[WB]]
// SOME: stablehlo.dot_general %{{.*}}, %[[WB]]
// SOME: %[[AGAIN:.*]] = plan.communicate all_gather none %arg0 {{.*}}plan.gathered_again = 1 : i64{{.*}}scalify.phase = #scalify.phase<backward>
// SOME: %[[WAGAIN:.*]] = stablehlo.reshape %[[AGAIN]]
// SOME: stablehlo.dot_general %{{.*}}, %[[WAGAIN]]
// SOME-NOT: plan.communicate

// The second one's reads are near each other: it stays.
// NONE-COUNT-3: plan.communicate
// NONE-NOT: plan.communicate
func.func @main(%a: tensor<256xf32>, %b: tensor<256xf32>, %x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %ga = plan.communicate all_gather none %a groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<256xf32>) -> tensor<2x256xf32>
  %wa = stablehlo.reshape %ga : (tensor<2x256xf32>) -> tensor<16x32xf32>
  %0 = stablehlo.dot_general %x, %wa, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %1 = stablehlo.tanh %0 : tensor<4x32xf32>
  %2 = stablehlo.tanh %1 : tensor<4x32xf32>
  %3 = stablehlo.tanh %2 : tensor<4x32xf32>
  %4 = stablehlo.tanh %3 : tensor<4x32xf32>
  %5 = stablehlo.tanh %4 : tensor<4x32xf32>
  %6 = stablehlo.tanh %5 : tensor<4x32xf32>
  %7 = stablehlo.tanh %6 : tensor<4x32xf32>
  %8 = stablehlo.tanh %7 : tensor<4x32xf32>
  %gb = plan.communicate all_gather none %b groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<256xf32>) -> tensor<2x256xf32>
  %wb = stablehlo.reshape %gb : (tensor<2x256xf32>) -> tensor<32x16xf32>
  %9 = stablehlo.dot_general %8, %wb, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x32xf32>, tensor<32x16xf32>) -> tensor<4x16xf32>
  %10 = stablehlo.tanh %9 : tensor<4x16xf32>
  %11 = stablehlo.dot_general %10, %wb, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x16xf32>, tensor<32x16xf32>) -> tensor<4x32xf32>
  %12 = stablehlo.multiply %11, %8 : tensor<4x32xf32>
  %13 = stablehlo.multiply %12, %7 : tensor<4x32xf32>
  %14 = stablehlo.multiply %13, %6 : tensor<4x32xf32>
  %15 = stablehlo.multiply %14, %5 : tensor<4x32xf32>
  %16 = stablehlo.multiply %15, %4 : tensor<4x32xf32>
  %17 = stablehlo.dot_general %16, %wa, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x32xf32>, tensor<16x32xf32>) -> tensor<4x16xf32>
  return %17 : tensor<4x16xf32>
}
