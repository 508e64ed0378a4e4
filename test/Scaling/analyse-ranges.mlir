// RUN: scalify-opt %s --split-input-file --scalify-analyse-ranges | FileCheck %s
// RUN: scalify-opt %s --split-input-file --scalify-analyse-ranges=annotate=all | FileCheck %s --check-prefix=ALL

// The example of the pass: a norm's output has rows of norm sqrt(64) = 8, and
// the gain is at most 2, whatever %x is.

// CHECK: module attributes {{.*}}scalify.assumptions = [{argument = "arg1", index = 1 : i64, max = 2.0{{0*}}e+00 : f64}]
// CHECK-LABEL: func.func @main(
// CHECK: scalify.scale_hint {{.*}}scalify.proved = {assumed = ["arg1"], bound = 16.00{{[0-9]*}} : f64, data = 16.00{{[0-9]*}} : f64, format = f8E4M3FN}
func.func @main(%x: tensor<4x64xf32>,
                %g: tensor<64xf32> {scalify.range = {max = 2.0}}) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<64.0> : tensor<4xf32>
  %eps = stablehlo.constant dense<1.0e-5> : tensor<4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %square = stablehlo.multiply %x, %x : tensor<4x64xf32>
  %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  %mean = stablehlo.divide %sum, %n : tensor<4xf32>
  %safe = stablehlo.add %mean, %eps : tensor<4xf32>
  %inverse = stablehlo.rsqrt %safe : tensor<4xf32>
  %rows = stablehlo.broadcast_in_dim %inverse, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
  %normal = stablehlo.multiply %x, %rows : tensor<4x64xf32>
  %gain = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<64xf32>) -> tensor<4x64xf32>
  %y = stablehlo.multiply %normal, %gain : tensor<4x64xf32>
  %z = scalify.scale_hint %y, %one : tensor<4x64xf32>
  return %z : tensor<4x64xf32>
}

// -----

// The same rows, but each is divided by the norm of another: no bound, and
// the division is to blame.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.unproved = {{.*}}reason = "no bound: argument 'arg0' without a declared range"
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %eps = stablehlo.constant dense<1.0e-5> : tensor<4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %square = stablehlo.multiply %x, %x : tensor<4x64xf32>
  %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  %other = stablehlo.reverse %sum, dims = [0] : tensor<4xf32>
  %safe = stablehlo.add %other, %eps : tensor<4xf32>
  %inverse = stablehlo.rsqrt %safe : tensor<4xf32>
  %rows = stablehlo.broadcast_in_dim %inverse, dims = [0] : (tensor<4xf32>) -> tensor<4x64xf32>
  %y = stablehlo.multiply %x, %rows : tensor<4x64xf32>
  %z = scalify.scale_hint %y, %one : tensor<4x64xf32>
  return %z : tensor<4x64xf32>
}

// -----

// Convex weights: what attention mixes is no larger than the largest value.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.scale_hint {{.*}}scalify.proved = {assumed = ["arg1"], bound = 3.0{{[0-9]*}} : f64
func.func @main(%s: tensor<4x16xf32> {scalify.range = {max = 100.0}},
                %v: tensor<16x8xf32> {scalify.range = {max = 3.0}}) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %inf = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %max = stablehlo.reduce(%s init: %inf) applies stablehlo.maximum across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
  %maxes = stablehlo.broadcast_in_dim %max, dims = [0] : (tensor<4xf32>) -> tensor<4x16xf32>
  %shifted = stablehlo.subtract %s, %maxes : tensor<4x16xf32>
  %e = stablehlo.exponential %shifted : tensor<4x16xf32>
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0] : (tensor<4xf32>) -> tensor<4x16xf32>
  %p = stablehlo.divide %e, %sums : tensor<4x16xf32>
  %y = stablehlo.dot_general %p, %v, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %z = scalify.scale_hint %y, %one : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// Cauchy-Schwarz: rows of norm 2, columns of norm 3. The declared bound on
// elements alone would give 64 * 1 * 1.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.scale_hint {{.*}}scalify.proved = {assumed = ["arg0", "arg1"], bound = 6.0{{[0-9]*}} : f64, data = 384.0
func.func @main(%x: tensor<4x64xf32> {scalify.range = {max = 1.0, norms = array<f64: 2.0, 2.0>}},
                %w: tensor<64x8xf32> {scalify.range = {max = 1.0, norms = array<f64: 3.0, 3.0>}}) -> tensor<4x8xf32> {
  %scale = stablehlo.constant dense<0.015625> : tensor<f32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %z = scalify.scale_hint %y, %scale : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----

// A gradient has the recipe's wider format; a measured scale proves nothing.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.scale_hint {{.*}}scalify.proved = {assumed = ["arg0"], bound = 1.0{{[0-9]*}}e+04 : f64, data = 1.0{{[0-9]*}}e+04 : f64, format = f8E5M2}
// CHECK: scalify.scale_hint {{.*}}scalify.unproved = {{.*}}reason = "the scale is measured in the step"
func.func @main(%x: tensor<8xf32> {scalify.range = {max = 1.0e4}}, %s: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %g = stablehlo.negate %x {scalify.phase = #scalify.phase<backward>} : tensor<8xf32>
  %y = scalify.scale_hint %g, %one : tensor<8xf32>
  %z = scalify.scale_hint %x, %s : tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}

// -----

// What a loop adds up has no bound; what it only selects from keeps it.

// CHECK-LABEL: func.func @main(
// CHECK: scalify.scale_hint {{.*}}scalify.unproved = {{.*}}reason = "no bound: 'stablehlo.add'
// CHECK: scalify.scale_hint {{.*}}scalify.proved = {assumed = ["arg0"], bound = 2.0
func.func @main(%x: tensor<8xf32> {scalify.range = {max = 2.0}}, %n: tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %scale = stablehlo.constant dense<1.0> : tensor<f32>
  %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %c = stablehlo.add %a, %x : tensor<8xf32>
    %d = stablehlo.minimum %b, %c : tensor<8xf32>
    %e = stablehlo.maximum %d, %x : tensor<8xf32>
    stablehlo.return %j, %c, %e : tensor<i32>, tensor<8xf32>, tensor<8xf32>
  }
  %y = scalify.scale_hint %0#1, %scale : tensor<8xf32>
  %z = scalify.scale_hint %0#2, %scale : tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}

// -----

// An infinity becomes NaN in FP8 and stays one in 16 bits.

// ALL-LABEL: func.func @infinities(
// ALL: scalify.quantize {{.*}}hi = 4.480000e+02 : f64, lo = -4.480000e+02 : f64, nan = true
// ALL: scalify.quantize {{.*}}hi = 0x7FF0000000000000 : f64, lo = 0xFFF0000000000000 : f64, nan = true
// ALL: scalify.quantize {{.*}}hi = 4.480000e+02 : f64, lo = -4.480000e+02 : f64, nan = false
func.func @infinities(%p: tensor<8xi1>) -> (tensor<8xf8E4M3FN>, tensor<8xbf16>, tensor<8xf8E4M3FN>) {
  %scale = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %many = stablehlo.constant dense<1000.0> : tensor<8xf32>
  %infinity = stablehlo.constant dense<0x7F800000> : tensor<8xf32>
  %x = stablehlo.select %p, %infinity, %zero : tensor<8xi1>, tensor<8xf32>
  %a = scalify.quantize %x, %scale : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %b = scalify.quantize %x, %scale : tensor<8xf32> -> tensor<8xbf16>
  %y = stablehlo.select %p, %many, %zero : tensor<8xi1>, tensor<8xf32>
  %c = scalify.quantize %y, %scale : tensor<8xf32> -> tensor<8xf8E4M3FN>
  return %a, %b, %c : tensor<8xf8E4M3FN>, tensor<8xbf16>, tensor<8xf8E4M3FN>
}
