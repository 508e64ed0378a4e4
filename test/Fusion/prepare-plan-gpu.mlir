// RUN: scalify-opt %s --pass-pipeline='builtin.module(scalify-set-target,func.func(scalify-prepare-plan))' -split-input-file | FileCheck %s
// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-prepare-plan))' -split-input-file | FileCheck %s --check-prefix=CPU

// A sum across memory to few results is summed in parts, a thread's each.
// CHECK-LABEL: func.func @across
// CPU-LABEL: func.func @across
func.func @across(%a: tensor<16384x4096xf32>) -> tensor<4096xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[V:.*]] = stablehlo.reshape %{{.*}} : (tensor<16384x4096xf32>) -> tensor<128x128x4096xf32>
  // CHECK: %[[P:.*]] = stablehlo.reduce(%[[V]] {{.*}} across dimensions = [1] {{.*}} -> tensor<128x4096xf32>
  // CHECK: stablehlo.reduce(%[[P]] {{.*}} across dimensions = [0] {{.*}} -> tensor<4096xf32>
  // CPU-NOT: stablehlo.reshape
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16384x4096xf32>, tensor<f32>) -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

// -----

// Leading dimensions that fit stay whole; of the next one a divisor.
// CHECK-LABEL: func.func @several
func.func @several(%a: tensor<8x2048x4096xf32>) -> tensor<4096xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[V:.*]] = stablehlo.reshape %{{.*}} -> tensor<8x16x128x4096xf32>
  // CHECK: %[[P:.*]] = stablehlo.reduce(%[[V]] {{.*}} across dimensions = [2] {{.*}} -> tensor<8x16x4096xf32>
  // CHECK: stablehlo.reduce(%[[P]] {{.*}} across dimensions = [0, 1] {{.*}} -> tensor<4096xf32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2048x4096xf32>, tensor<f32>) -> tensor<4096xf32>
  return %r : tensor<4096xf32>
}

// -----

// A narrow sum is still rounded once.
// CHECK-LABEL: func.func @narrow
func.func @narrow(%a: tensor<16384x4096xbf16>) -> tensor<4096xbf16> {
  %z = stablehlo.constant dense<0.0> : tensor<bf16>
  // CHECK: %[[W:.*]] = stablehlo.convert %{{.*}} -> tensor<16384x4096xf32>
  // CHECK: %[[V:.*]] = stablehlo.reshape %[[W]]
  // CHECK: stablehlo.reduce(%[[V]] {{.*}} -> tensor<128x4096xf32>
  // CHECK: %[[S:.*]] = stablehlo.reduce({{.*}} -> tensor<4096xf32>
  // CHECK: stablehlo.convert %[[S]] : (tensor<4096xf32>) -> tensor<4096xbf16>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16384x4096xbf16>, tensor<bf16>) -> tensor<4096xbf16>
  return %r : tensor<4096xbf16>
}

// -----

// Sums that must go in order stay, and results that are many.
// CHECK-LABEL: func.func @as_they_are
// CHECK-NOT: stablehlo.reshape
// CHECK: return
func.func @as_they_are(%a: tensor<64x4096xf32>, %b: tensor<32x1048576xf32>) -> (tensor<4096xf32>, tensor<1048576xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] {scalify.in_order} : (tensor<64x4096xf32>, tensor<f32>) -> tensor<4096xf32>
  %s = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : (tensor<32x1048576xf32>, tensor<f32>) -> tensor<1048576xf32>
  return %r, %s : tensor<4096xf32>, tensor<1048576xf32>
}

// -----

// Sums to a number go by the rows of the kernel that makes the values, as maxima do.
// CHECK-LABEL: func.func @to_a_number
func.func @to_a_number(%a: tensor<16384x14336xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[V:.*]] = stablehlo.reshape %{{.*}} -> tensor<16384x14336xf32>
  // CHECK: %[[P:.*]] = stablehlo.reduce(%[[V]] {{.*}} across dimensions = [1] {{.*}} -> tensor<16384xf32>
  // CHECK: stablehlo.reduce(%[[P]] {{.*}} -> tensor<f32>
  // CPU: stablehlo.reshape %{{.*}} -> tensor<65536x3584xf32>
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<16384x14336xf32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
