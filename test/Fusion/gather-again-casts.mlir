// RUN: scalify-opt %s --scalify-gather-again=most-bytes=0 | FileCheck %s

// The backward alone reads the weight as cast: the cast that is done for it, in
// place of the first, counts.
// CHECK-NOT: scalify.quantize
// CHECK: plan.communicate all_gather none %arg0 {{.*}}plan.gathered_again
// CHECK: scalify.quantize
// CHECK-NOT: scalify.uncounted
// CHECK: return
func.func @main(%a: tensor<256xf32>, %x: tensor<4x16xf32>, %s: tensor<f32>, %b: tensor<64xf32>) -> (tensor<4x16xf32>) {
  %ga = plan.communicate all_gather none %a groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<256xf32>) -> tensor<2x256xf32>
  %wa = stablehlo.reshape %ga : (tensor<2x256xf32>) -> tensor<16x32xf32>
  %q = scalify.quantize %wa, %s {cast = "b"} : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
  %d = scalify.dequantize %q, %s : tensor<16x32xf8E4M3FN> -> tensor<16x32xf32>
  %y = stablehlo.dot_general %x, %wa, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %t0 = stablehlo.tanh %y : tensor<4x32xf32>
  %t1 = stablehlo.tanh %t0 : tensor<4x32xf32>
  %t2 = stablehlo.tanh %t1 : tensor<4x32xf32>
  %t3 = stablehlo.tanh %t2 : tensor<4x32xf32>
  %t4 = stablehlo.tanh %t3 : tensor<4x32xf32>
  %t5 = stablehlo.tanh %t4 : tensor<4x32xf32>
  %t6 = stablehlo.tanh %t5 : tensor<4x32xf32>
  %t7 = stablehlo.tanh %t6 : tensor<4x32xf32>
  %t8 = stablehlo.tanh %t7 : tensor<4x32xf32>
  %t9 = stablehlo.tanh %t8 : tensor<4x32xf32>
  %gb = plan.communicate all_gather none %b groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<64xf32>) -> tensor<2x64xf32>
  %wb = stablehlo.reshape %gb : (tensor<2x64xf32>) -> tensor<4x32xf32>
  %u = stablehlo.add %t9, %wb : tensor<4x32xf32>
  %t10 = stablehlo.tanh %u : tensor<4x32xf32>
  %t11 = stablehlo.tanh %t10 : tensor<4x32xf32>
  %t12 = stablehlo.tanh %t11 : tensor<4x32xf32>
  %t13 = stablehlo.tanh %t12 : tensor<4x32xf32>
  %t14 = stablehlo.tanh %t13 : tensor<4x32xf32>
  %t15 = stablehlo.tanh %t14 : tensor<4x32xf32>
  %t16 = stablehlo.tanh %t15 : tensor<4x32xf32>
  %t17 = stablehlo.tanh %t16 : tensor<4x32xf32>
  %t18 = stablehlo.tanh %t17 : tensor<4x32xf32>
  %t19 = stablehlo.tanh %t18 : tensor<4x32xf32>
  %r = stablehlo.dot_general %t19, %d, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<4x32xf32>, tensor<16x32xf32>) -> tensor<4x16xf32>
  return %r : tensor<4x16xf32>
}
