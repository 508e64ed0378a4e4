// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-prepare-plan))' -verify-diagnostics -split-input-file

func.func @loop(%a: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{not in the CPU target: no lowering for this op}}
  %r = stablehlo.while(%x = %a) : tensor<f32>
    cond {
      %p = stablehlo.compare LT, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %x : tensor<f32>
      stablehlo.return %y : tensor<f32>
    }
  return %r : tensor<f32>
}

// -----

func.func @complex(%a: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  // expected-error @+1 {{not in the CPU target: element type 'complex<f32>'}}
  %r = stablehlo.add %a, %a : tensor<4xcomplex<f32>>
  return %r : tensor<4xcomplex<f32>>
}

// -----

// The op without an expansion is named, not those around it.
func.func @glue(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.complex %a, %a : tensor<4xcomplex<f32>>
  // expected-error @+1 {{'stablehlo.fft' op not in the CPU target: element type 'complex<f32>'}}
  %f = stablehlo.fft %c, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %r = stablehlo.real %f : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// It was computed without being rounded to this type.
func.func @rare_float(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{not in the CPU target: element type 'f8E3M4'}}
  %r = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xf8E3M4>
  %w = stablehlo.convert %r : (tensor<4xf8E3M4>) -> tensor<4xf32>
  return %w : tensor<4xf32>
}
