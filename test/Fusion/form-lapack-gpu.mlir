// RUN: scalify-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(scalify-set-target,func.func(scalify-prepare-plan))'

// A GPU's plan has no LAPACK.
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{'stablehlo.custom_call' op not in the GPU target: no lowering for a call of 'lapack_spotrf_ffi'; scalify.transform leaves it to XLA}}
  %l:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l#0 : tensor<4x4xf32>
}

// -----

func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{'stablehlo.cholesky' op not in the GPU target: no lowering for this op; scalify.transform leaves it to XLA}}
  %l = stablehlo.cholesky %a : tensor<4x4xf32>
  return %l : tensor<4x4xf32>
}
