// RUN: scalify-opt %s --scalify-normalize-donation | FileCheck %s

// The third donor finds no free result of its type.
// CHECK-LABEL: func.func public @main
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {scalify.name = "params['w']", tf.aliasing_output = 2 : i32}
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {scalify.name = "result[0]", tf.aliasing_output = 0 : i32}
// CHECK-SAME: %{{[^:]*}}: tensor<4xf32> {scalify.name = "given"}
// CHECK-SAME: %{{[^:]*}}: tensor<i32> {scalify.name = "result[1].count", tf.aliasing_output = 1 : i32}
// CHECK-SAME: %{{[^:]*}}: tensor<8xi32> {scalify.name = "arg4"}
func.func public @main(
    %a: tensor<4xf32> {tf.aliasing_output = 2 : i32} loc("params['w']"),
    %b: tensor<4xf32> {jax.buffer_donor = true},
    %c: tensor<4xf32> {jax.buffer_donor = true, scalify.name = "given"},
    %d: tensor<i32> {jax.buffer_donor = true},
    %e: tensor<8xi32>)
    -> (tensor<4xf32> {jax.result_info = "result[0]"},
        tensor<i32> {jax.result_info = "result[1].count"}, tensor<4xf32>) {
  return %c, %d, %b : tensor<4xf32>, tensor<i32>, tensor<4xf32>
}
