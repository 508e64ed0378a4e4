// RUN: scalify-opt %s --split-input-file --scalify-expand-fourier | FileCheck %s

// Of a real transform only the read part is left.
// CHECK-LABEL: func.func @real
func.func @real(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[COS:.*]] = stablehlo.constant dense<{{\[\[}}1.0{{.*}}, 1.0{{.*}}, 1.0{{.*}}], [1.0{{.*}}, 0.0{{.*}}, -1.0{{.*}}]
  // CHECK: %[[RE:.*]] = stablehlo.dot_general %arg0, %[[COS]], contracting_dims = [1] x [0]
  // CHECK: return %[[RE]]
  %f = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<2x4xf32>) -> tensor<2x3xcomplex<f32>>
  %r = stablehlo.real %f : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// 2062 = 2 * 1031, and 1031 is prime; an operand that no op joined is an argument of the step.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<2062xf32>, %z: tensor<4xcomplex<f32>>) -> (tensor<1032xf32>, tensor<4xf32>) {
  // CHECK: stablehlo.fft %arg0, type = RFFT
  // CHECK: stablehlo.fft %arg1, type = FFT
  %f = stablehlo.fft %x, type = RFFT, length = [2062] : (tensor<2062xf32>) -> tensor<1032xcomplex<f32>>
  %r = stablehlo.real %f : (tensor<1032xcomplex<f32>>) -> tensor<1032xf32>
  %g = stablehlo.fft %z, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %s = stablehlo.imag %g : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r, %s : tensor<1032xf32>, tensor<4xf32>
}
