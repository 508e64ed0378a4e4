// RUN: scalify-opt %s --scalify-form-host-calls --split-input-file --verify-diagnostics

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{calls back into Python ('xla_ffi_python_cpu_callback': jax.debug.print, jax.debug.callback, jax.pure_callback or jax.experimental.io_callback), which only a step of scalify.jit on a CPU can, in the process that traced it; return the value and use it outside, or use scalify.transform}}
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {mhlo.backend_config = {index = 0 : ui64}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{calls back into Python ('xla_ffi_python_cpu_callback'}}
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) {mhlo.backend_config = {index = 340282366920938463463374607431768211455 : i128}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
