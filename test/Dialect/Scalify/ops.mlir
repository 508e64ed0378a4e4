// RUN: scalify-opt %s | scalify-opt | FileCheck %s

// CHECK-LABEL: func.func @casts
func.func @casts(%x: tensor<8xf32>, %s: tensor<f32>) -> tensor<8xf32> {
  // CHECK: scalify.scale_hint %{{.*}}, %{{.*}} {rule = "measured"} : tensor<8xf32>
  %1 = scalify.scale_hint %x, %s {rule = "measured"} : tensor<8xf32>
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} {cast = "c0"} : tensor<8xf32> -> tensor<8xf8E5M2>
  %3 = scalify.quantize %1, %s {cast = "c0"} : tensor<8xf32> -> tensor<8xf8E5M2>
  // CHECK: scalify.dequantize %{{.*}}, %{{.*}} : tensor<8xf8E5M2> -> tensor<8xf32>
  %4 = scalify.dequantize %3, %s : tensor<8xf8E5M2> -> tensor<8xf32>
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} : tensor<8xf32> -> tensor<8xf16>
  %5 = scalify.quantize %4, %s : tensor<8xf32> -> tensor<8xf16>
  // CHECK: scalify.dequantize %{{.*}}, %{{.*}} : tensor<8xf16> -> tensor<8xf32>
  %6 = scalify.dequantize %5, %s : tensor<8xf16> -> tensor<8xf32>
  return %6 : tensor<8xf32>
}

// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<4x300xf32>, %s: tensor<4x3xf32>, %t: tensor<4x1xf32>) -> (tensor<4x300xf32>, tensor<4x300xf8E4M3FN>) {
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} by tensor<4x3xf32> {block = array<i64: 1, 128>, cast = "c0"} : tensor<4x300xf32> -> tensor<4x300xf8E4M3FN>
  %0 = scalify.quantize %x, %s by tensor<4x3xf32> {block = array<i64: 1, 128>, cast = "c0"} : tensor<4x300xf32> -> tensor<4x300xf8E4M3FN>
  // CHECK: scalify.dequantize %{{.*}}, %{{.*}} by tensor<4x3xf32> {block = array<i64: 1, 128>} : tensor<4x300xf8E4M3FN> -> tensor<4x300xf32>
  %1 = scalify.dequantize %0, %s by tensor<4x3xf32> {block = array<i64: 1, 128>} : tensor<4x300xf8E4M3FN> -> tensor<4x300xf32>
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} by tensor<4x1xf32> {block = array<i64: 1, 0>} :
  %2 = scalify.quantize %x, %t by tensor<4x1xf32> {block = array<i64: 1, 0>} : tensor<4x300xf32> -> tensor<4x300xf8E4M3FN>
  return %1, %2 : tensor<4x300xf32>, tensor<4x300xf8E4M3FN>
}

// CHECK-LABEL: func.func @stochastic
func.func @stochastic(%x: tensor<8xf32>, %s: tensor<f32>, %step: tensor<2xui32>, %stream: tensor<i32>) -> (tensor<8xf16>, tensor<8xi32>) {
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} at %{{.*}} {cast = "c0", rounding = #scalify.rounding<stochastic>, stream = 3 : i64} : tensor<8xf32> -> tensor<8xf16>
  %0 = scalify.quantize %x, %s at %step {cast = "c0", rounding = #scalify.rounding<stochastic>, stream = 3 : i64} : tensor<8xf32> -> tensor<8xf16>
  // CHECK: scalify.random_bits 1 of %{{.*}}, %{{.*}} : tensor<8xi32>
  %1 = scalify.random_bits 1 of %step, %stream : tensor<8xi32>
  // CHECK: scalify.quantize %{{.*}}, %{{.*}} at %{{.*}} from %{{.*}} {rounding = #scalify.rounding<stochastic>, stream = 3 : i64} : tensor<8xf32> -> tensor<8xf16>
  %2 = scalify.quantize %x, %s at %step from %stream {rounding = #scalify.rounding<stochastic>, stream = 3 : i64} : tensor<8xf32> -> tensor<8xf16>
  // CHECK: scalify.random_bits 1 of %{{.*}}, %{{.*}} from %{{.*}} {whole = array<i64: 32>} : tensor<8xi32>
  %3 = scalify.random_bits 1 of %step, %stream from %stream {whole = array<i64: 32>} : tensor<8xi32>
  return %0, %1 : tensor<8xf16>, tensor<8xi32>
}
