// RUN: scalify-opt %s --split-input-file --scalify-split-complex | FileCheck %s

// A product is four; parts that complex joined are taken directly.
// CHECK-LABEL: func.func @product
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>)
func.func @product(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: complex
  // CHECK: %[[AA:.*]] = stablehlo.multiply %[[A]], %[[A]]
  // CHECK: %[[BB:.*]] = stablehlo.multiply %[[B]], %[[B]]
  // CHECK: %[[RE:.*]] = stablehlo.subtract %[[AA]], %[[BB]]
  // CHECK: return %[[RE]]
  %z = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>
  %w = stablehlo.multiply %z, %z : tensor<4xcomplex<f32>>
  %r = stablehlo.real %w : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Arguments and results stay complex.
// CHECK-LABEL: func.func @boundary
func.func @boundary(%z: tensor<2x3xcomplex<f32>>) -> tensor<3x2xcomplex<f32>> {
  // CHECK-DAG: %[[RE:.*]] = stablehlo.real %arg0
  // CHECK-DAG: %[[IM:.*]] = stablehlo.imag %arg0
  // CHECK-DAG: %[[TRE:.*]] = stablehlo.transpose %[[RE]], dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK-DAG: %[[TIM:.*]] = stablehlo.transpose %[[IM]], dims = [1, 0]
  // CHECK: %[[T:.*]] = stablehlo.complex %[[TRE]], %[[TIM]]
  // CHECK: return %[[T]]
  %t = stablehlo.transpose %z, dims = [1, 0] : (tensor<2x3xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  return %t : tensor<3x2xcomplex<f32>>
}

// -----

// A carry is two; so is the constant that it begins with.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: tensor<f32>) -> tensor<f32> {
  // CHECK-DAG: %[[ONE:.*]] = stablehlo.constant dense<1.0{{.*}}> : tensor<f32>
  // CHECK-DAG: %[[ZERO:.*]] = stablehlo.constant dense<0.0{{.*}}> : tensor<f32>
  // CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[ONE]], %{{.*}} = %[[ZERO]]) : tensor<i32>, tensor<f32>, tensor<f32>
  // CHECK-NOT: complex<
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c9 = stablehlo.constant dense<9> : tensor<i32>
  %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %r:2 = stablehlo.while(%i = %c0, %z = %one) : tensor<i32>, tensor<complex<f32>>
    cond {
      %p = stablehlo.compare LT, %i, %c9 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %w = stablehlo.complex %x, %x : tensor<complex<f32>>
      %y = stablehlo.multiply %z, %w : tensor<complex<f32>>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<complex<f32>>
    }
  %m = stablehlo.abs %r#1 : (tensor<complex<f32>>) -> tensor<f32>
  return %m : tensor<f32>
}

// -----

// A sum is two sums; a product of elements is one reduction of both parts.
// CHECK-LABEL: func.func @reduced
func.func @reduced(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add
  // CHECK: stablehlo.reduce(%arg1 init: %{{.*}}) applies stablehlo.add
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}), (%arg1 init: %{{.*}}) across dimensions = [0]
  // CHECK: reducer(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>) (%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>)
  %z = stablehlo.complex %a, %b : tensor<4xcomplex<f32>>
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %s = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  %p = stablehlo.reduce(%z init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  %re = stablehlo.real %s : (tensor<complex<f32>>) -> tensor<f32>
  %im = stablehlo.imag %p : (tensor<complex<f32>>) -> tensor<f32>
  return %re, %im : tensor<f32>, tensor<f32>
}

// -----

// A Fourier transform keeps complex operands.
// CHECK-LABEL: func.func @fourier
func.func @fourier(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[RE:.*]] = stablehlo.convert %arg0
  // CHECK: %[[Z:.*]] = stablehlo.complex %[[RE]], %{{.*}}
  // CHECK: %[[F:.*]] = stablehlo.fft %[[Z]]
  // CHECK: stablehlo.real %[[F]]
  %z = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %f = stablehlo.fft %z, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %g = stablehlo.negate %f : tensor<4xcomplex<f32>>
  %r = stablehlo.real %g : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Elements that are not all listed: the constant stays complex.
// CHECK-LABEL: func.func @sparse
func.func @sparse(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  // CHECK: %[[C:.*]] = stablehlo.constant sparse<0, (1.0{{.*}},2.0{{.*}})> : tensor<2xcomplex<f32>>
  // CHECK: stablehlo.real %[[C]]
  %c = stablehlo.constant sparse<[[0]], [(1.0, 2.0)]> : tensor<2xcomplex<f32>>
  %0 = stablehlo.add %a, %c : tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>>
}
