// RUN: scalify-compile %s -o - --target=stablehlo | FileCheck %s

// Elements as torch-mlir prints them: at the end of the text, after the four
// bytes of their alignment.
// CHECK-LABEL: func.func public @main
// CHECK-DAG: stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-DAG: stablehlo.constant dense<[true, false]> : tensor<2xi1>
func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %w = stablehlo.constant dense_resource<w> : tensor<2xf32>
  %mask = stablehlo.constant dense_resource<mask> : tensor<2xi1>
  %0 = stablehlo.multiply %a, %w : tensor<2xf32>
  %1 = stablehlo.select %mask, %0, %a : tensor<2xi1>, tensor<2xf32>
  return %1 : tensor<2xf32>
}
{-# dialect_resources: {builtin: {w: "0x040000000000803F00000040", mask: "0x010000000100"}} #-}
