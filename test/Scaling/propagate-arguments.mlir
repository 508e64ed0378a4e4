// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// A gate that starts at zero does not stay there: left at zero, it would leave
// nothing of the branch and of its gradients.
// CHECK-LABEL: func.func @gate
func.func @gate(%x: tensor<8x64xf32> {scalify.scale = 1 : i32},
                %gate: tensor<64xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x64xf32> {
  %g = stablehlo.broadcast_in_dim %gate, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  // CHECK: stablehlo.multiply {{.*}}scalify.scale = -5 : i32
  %y = stablehlo.multiply %g, %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// A weight that starts at zero grows as one of 0.02 does, which lacks 2.5
// binades to a gain of one at this width: to 2^-4. What it holds is updates, so
// that its product grows by K^(3/4), 2^4.5, to 2^0.5, which is rounded up.
// CHECK-LABEL: func.func @weight
func.func @weight(%x: tensor<8x64xf32> {scalify.scale = 0 : i32},
                  %w: tensor<64x256xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x256xf32> {
  // CHECK: stablehlo.dot_general {{.*}}scalify.scale = 1 : i32
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  return %y : tensor<8x256xf32>
}

// -----

// So does the kernel of a convolution.
// CHECK-LABEL: func.func @kernel
func.func @kernel(%x: tensor<8x4x4x16xf32> {scalify.scale = 0 : i32},
                  %w: tensor<1x1x16x16xf32> {scalify.scale = -127 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x4x4x16xf32> {
  // CHECK: stablehlo.convolution{{.*}}scalify.scale = -2 : i32
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

// -----

// A LayerScale of 1e-6 (2^-20) does not stay there: half-way to 2^-5.
// CHECK-LABEL: func.func @layer_scale
func.func @layer_scale(%x: tensor<8x64xf32> {scalify.scale = 0 : i32},
                       %g: tensor<64xf32> {scalify.scale = -20 : i32, scalify.moments = array<f64: 1.0e-6, 0.0>, scalify.role = #scalify.role<param>}) -> tensor<8x64xf32> {
  %b = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<64xf32>) -> tensor<8x64xf32>
  // CHECK: stablehlo.multiply {{.*}}scalify.scale = -12 : i32
  %y = stablehlo.multiply %b, %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}
