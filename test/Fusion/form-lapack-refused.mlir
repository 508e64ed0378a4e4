// RUN: scalify-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(scalify-form-lapack,scalify-prepare-plan))'

// Row-major matrices are not LAPACK's.
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{'stablehlo.custom_call' op not in the CPU target: no lowering for a call of 'lapack_spotrf_ffi'; scalify.transform leaves it to XLA, and scalify.jit(fallback="xla") has XLA run it within the step}}
  %l:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l#0 : tensor<4x4xf32>
}

// -----

// The overwritten matrix has no meaning.
func.func @main(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{no lowering for a call of 'lapack_sgesdd_ffi'}}
  %s:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 78 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<i32>)
  return %s#0 : tensor<4x2xf32>
}

// -----

// An option that the routine does not have.
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{no lowering for a call of 'lapack_spotrf_ffi'}}
  %l:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 88 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l#0 : tensor<4x4xf32>
}

// -----

// LAPACK does not compute in 8 bits.
func.func @main(%a: tensor<4x4xf8E5M2>) -> tensor<4x4xf8E5M2> {
  // expected-error @below {{'stablehlo.cholesky' op not in the CPU target: no lowering for this op; scalify.transform leaves it to XLA}}
  %l = stablehlo.cholesky %a : tensor<4x4xf8E5M2>
  return %l : tensor<4x4xf8E5M2>
}

// -----

// An option of more bits than any.
func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @below {{no lowering for a call of 'lapack_spotrf_ffi'}}
  %l:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 340282366920938463463374607431768211455 : i128}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<i32>)
  return %l#0 : tensor<4x4xf32>
}
