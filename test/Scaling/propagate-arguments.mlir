// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// A parameter that starts at zero counts as 2^-6: a gate that counts as zero
// would leave nothing of its branch and of its gradients.
// CHECK-LABEL: func.func @gate
func.func @gate(%x: tensor<8x64xf32> {scalify.scale = 1 : i32},
                %gate: tensor<64xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x64xf32> {
  %g = stablehlo.broadcast_in_dim %gate, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  // CHECK: stablehlo.multiply {{.*}}scalify.scale = -5 : i32
  %y = stablehlo.multiply %g, %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// CHECK-LABEL: func.func @weight
func.func @weight(%x: tensor<8x64xf32> {scalify.scale = 0 : i32},
                  %w: tensor<64x256xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x256xf32> {
  // CHECK: stablehlo.dot_general {{.*}}scalify.scale = -3 : i32
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  return %y : tensor<8x256xf32>
}

// -----

// CHECK-LABEL: func.func @kernel
func.func @kernel(%x: tensor<8x4x4x16xf32> {scalify.scale = 0 : i32},
                  %w: tensor<1x1x16x16xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x4x4x16xf32> {
  // CHECK: stablehlo.convolution{{.*}}scalify.scale = -4 : i32
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x4x4x16xf32>, tensor<1x1x16x16xf32>) -> tensor<8x4x4x16xf32>
  return %y : tensor<8x4x4x16xf32>
}

// -----

// Data that happens to be zero says nothing.
// CHECK-LABEL: func.func @data
func.func @data(%x: tensor<8x64xf32> {scalify.scale = 1 : i32},
                %z: tensor<8x64xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<batch>}) -> tensor<8x64xf32> {
  // CHECK: stablehlo.add {{.*}}scalify.scale = 1 : i32
  %y = stablehlo.add %z, %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// One number stays a true value, and tells the size of what it multiplies: a
// learned temperature of exp(2.66) = 14.
// CHECK-LABEL: func.func @temperature
func.func @temperature(%x: tensor<8x8xf32> {scalify.scale = -3 : i32},
                       %t: tensor<f32> {scalify.scale = 1 : i32, scalify.moments = array<f64: 2.66, 0.0>}) -> tensor<8x8xf32> {
  %e = stablehlo.exponential %t : tensor<f32>
  %b = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
  // CHECK: stablehlo.multiply {{.*}}scalify.scale = 1 : i32
  %y = stablehlo.multiply %b, %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
