// RUN: scalify-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(scalify-form-lapack))' | FileCheck %s
// RUN: scalify-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(scalify-form-lapack,scalify-prepare-plan),scalify-form-plan,scalify-assign-buffers)' | FileCheck %s --check-prefix=PLAN

// The letters are the options of LAPACK. A result that the routine does not write has no use.
// CHECK-LABEL: @main
// CHECK-SAME: (%[[A:.*]]: tensor<3x4x4xf32>, %[[B:.*]]: tensor<3x4x2xf32>)
// CHECK: %[[L:.*]]:2 = plan.factorize "potrf" %[[A]] sizes [3, 4, 4, 0] letters "L" : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
// CHECK: %[[X:.*]] = plan.factorize "trsm" %[[L]]#0, %[[B]] sizes [3, 4, 2, 0] letters "LLTN"
// CHECK: plan.factorize "gesdd" %[[X]] sizes [3, 4, 2, 0] letters "N" : (tensor<3x4x2xf32>) -> (tensor<3x2xf32>, tensor<3xi32>)
// CHECK-NOT: custom_call
//
// Three matrices are three tasks, each with 16 elements for the copy of a factor.
// PLAN-LABEL: plan.program @step
// PLAN: plan.lapack "potrf" reads(%{{.*}} : memref<3x4x4xf32>) writes(%{{.*}}, %{{.*}} : memref<3x4x4xf32>, memref<3xi32>) work %{{.*}} : memref<48xf32> sizes [3, 4, 4, 0] letters "L"
// PLAN: plan.lapack "trsm" {{.*}} work %{{.*}} : memref<96xf32>
func.func @main(%a: tensor<3x4x4xf32>, %b: tensor<3x4x2xf32>) -> (tensor<3x2xf32>, tensor<3xi32>) {
  %l:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>]} : (tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<3xi32>)
  %x = stablehlo.custom_call @lapack_strsm_ffi(%l#0, %b) {mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>]} : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %s:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%x) {mhlo.backend_config = {mode = 78 : ui8}, operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>], result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>, dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 2, 0]> : tensor<3xindex>, dense<0> : tensor<1xindex>]} : (tensor<3x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<3x2xf32>, tensor<3x4x4xf32>, tensor<3x2x2xf32>, tensor<3xi32>)
  return %s#1, %s#4 : tensor<3x2xf32>, tensor<3xi32>
}

// -----

// StableHLO's solvers; a factor has zeros in the other triangle and NaN where there is none.
// CHECK-LABEL: @main
// CHECK: %[[U:.*]]:2 = plan.factorize "potrf" %{{.*}} sizes [1, 4, 4, 0] letters "U" : (tensor<4x4xf64>) -> (tensor<4x4xf64>, tensor<i32>)
// CHECK: %[[IN:.*]] = stablehlo.compare GE, %[[COLS:.*]], %[[ROWS:.*]] : (tensor<4x4xi32>
// CHECK: %[[T:.*]] = stablehlo.select %[[IN]], %[[U]]#0, %{{.*}}
// CHECK: stablehlo.compare EQ, %[[U]]#1
// CHECK: %[[F:.*]] = stablehlo.select %{{.*}}, %[[T]], %{{.*}}
// CHECK: plan.factorize "trsm" %[[F]], %{{.*}} sizes [1, 2, 4, 0] letters "RUNU"
// PLAN-LABEL: plan.program @step
func.func @main(%a: tensor<4x4xf64>, %b: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %u = stablehlo.cholesky %a : tensor<4x4xf64>
  %x = "stablehlo.triangular_solve"(%u, %b) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<4x4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
  return %x : tensor<2x4xf64>
}

// -----

// A complex matrix is two operands, its parts, which need not be joined between two calls. The
// eigenvectors of a real matrix are complex.
// CHECK-LABEL: @main
// CHECK-SAME: (%[[RE:.*]]: tensor<4x4xf32>, %[[IM:.*]]: tensor<4x4xf32>)
// CHECK: %[[LU:.*]]:4 = plan.factorize complex "getrf" %[[RE]], %[[IM]] sizes [1, 4, 4, 0] letters "" : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32>, tensor<i32>)
// CHECK: %[[X:.*]]:2 = plan.factorize complex "trsm" %[[LU]]#0, %[[LU]]#1, %[[RE]], %[[IM]] sizes [1, 4, 4, 0] letters "LLCU"
// CHECK: %[[E:.*]]:5 = plan.factorize "geev" %[[RE]] sizes [1, 4, 4, 0] letters "NV" : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>)
// CHECK-NOT: complex<f32>
// CHECK: return %[[X]]#1, %[[E]]#1, %[[E]]#3
func.func @main(%re: tensor<4x4xf32>, %im: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>) {
  %a = stablehlo.complex %re, %im : tensor<4x4xcomplex<f32>>
  %l:3 = stablehlo.custom_call @lapack_cgetrf_ffi(%a) {mhlo.backend_config = {}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xcomplex<f32>>) -> (tensor<4x4xcomplex<f32>>, tensor<4xi32>, tensor<i32>)
  %x = stablehlo.custom_call @lapack_ctrsm_ffi(%l#0, %a) {mhlo.backend_config = {diag = 85 : ui8, side = 76 : ui8, trans_x = 67 : ui8, uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  %y = stablehlo.imag %x : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
  %e:5 = stablehlo.custom_call @lapack_sgeev_ffi(%re) {mhlo.backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>, tensor<i32>)
  %v = stablehlo.imag %e#3 : (tensor<4x4xcomplex<f32>>) -> tensor<4x4xf32>
  return %y, %e#1, %v : tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>
}
