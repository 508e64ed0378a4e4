// RUN: not scalify-compile %s -o %t 2>&1 | FileCheck %s

// CHECK: error: {{.*}}argument 0 is donated to result 7, but '@main' has 1 results
func.func public @main(%t: !stablehlo.token {jax.token = true}, %x: tensor<3xf32> {tf.aliasing_output = 7 : i32}) -> (!stablehlo.token {jax.token = true}, tensor<3xf32>) {
  return %t, %x : !stablehlo.token, tensor<3xf32>
}
