// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// The factor 1 / 64 of an inverse transform's gradient, as JAX writes it.
// CHECK-LABEL: func.func @factor
func.func @factor(%x: tensor<8x64xf32> {scalify.scale = -11 : i32}) -> tensor<8x33xf32> {
  %c = stablehlo.constant dense<(1.562500e-02,0.000000e+00)> : tensor<8x33xcomplex<f32>>
  %f = stablehlo.fft %x, type = RFFT, length = [64] : (tensor<8x64xf32>) -> tensor<8x33xcomplex<f32>>
  %y = stablehlo.multiply %c, %f : tensor<8x33xcomplex<f32>>
  // 2^-11 sqrt(64) / 64 / sqrt(2)
  // CHECK: stablehlo.real {{.*}}scalify.scale = -15 : i32
  %r = stablehlo.real %y : (tensor<8x33xcomplex<f32>>) -> tensor<8x33xf32>
  return %r : tensor<8x33xf32>
}

// -----

// CHECK-LABEL: func.func @table
func.func @table(%x: tensor<2xf32> {scalify.scale = 0 : i32}) -> tensor<2xf32> {
  %c = stablehlo.constant dense<[(0.0,-8.0), (8.0,0.0)]> : tensor<2xcomplex<f32>>
  %z = stablehlo.complex %x, %x : tensor<2xcomplex<f32>>
  %y = stablehlo.multiply %c, %z : tensor<2xcomplex<f32>>
  // CHECK: stablehlo.imag {{.*}}scalify.scale = 3 : i32
  %r = stablehlo.imag %y : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// exp(z) - 1 is z where z is small: the step of a discretised state space.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<64xf32> {scalify.scale = -5 : i32}) -> tensor<64xf32> {
  %one = stablehlo.constant dense<(1.0,0.0)> : tensor<64xcomplex<f32>>
  %z = stablehlo.complex %x, %x : tensor<64xcomplex<f32>>
  %e = stablehlo.exponential %z : tensor<64xcomplex<f32>>
  %y = stablehlo.subtract %e, %one : tensor<64xcomplex<f32>>
  // CHECK: stablehlo.real {{.*}}scalify.scale = -5 : i32
  %r = stablehlo.real %y : (tensor<64xcomplex<f32>>) -> tensor<64xf32>
  return %r : tensor<64xf32>
}
