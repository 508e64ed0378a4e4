// RUN: scalify-opt %s --scalify-import-callbacks | FileCheck %s

// Tokens leave the signature, and what aliases a result counts without them.
// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %[[N:.*]]: tensor<i32>)
// CHECK-SAME: -> tensor<3xf32>
func.func public @main(%t: !stablehlo.token {jax.token = true},
                       %x: tensor<3xf32> {tf.aliasing_output = 1 : i32},
                       %n: tensor<i32>)
    -> (!stablehlo.token {jax.token = true}, tensor<3xf32>) {
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: stablehlo.while(%[[I:.*]] = %{{.*}}, %[[T:.*]] = %[[ZERO]], %[[V:.*]] = %[[X]])
  // CHECK-SAME: tensor<i32>, tensor<i32>, tensor<3xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %u = %t, %v = %x) : tensor<i32>, !stablehlo.token, tensor<3xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      // CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[T]], %[[V]])
      // CHECK-SAME: (tensor<i32>, tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>)
      %w:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%u, %v) {
        has_side_effect = true, mhlo.backend_config = {index = 0 : ui64},
        operand_layouts = [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>],
        result_layouts = [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>]}
        : (!stablehlo.token, tensor<3xf32>) -> (!stablehlo.token, tensor<3xf32>)
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %w#0, %w#1 : tensor<i32>, !stablehlo.token, tensor<3xf32>
    }
  return %r#1, %r#2 : !stablehlo.token, tensor<3xf32>
}
