// Factorisations keep norms: of a 16 x 16 matrix of 2^-4 the squares of the
// eigenvalues sum to 16^2 * 2^-8, and eigenvectors have unit length.
//
// RUN: scalify-opt %s --scalify-propagate="strict remarks=0" | FileCheck %s

// CHECK-LABEL: func.func @eigen
func.func @eigen(%a: tensor<16x16xf32> {scalify.scale = -4 : i32}) -> (tensor<16x16xf32>, tensor<16xf32>) {
  // CHECK: stablehlo.custom_call @lapack_ssyevd_ffi
  %v, %w, %info = stablehlo.custom_call @lapack_ssyevd_ffi(%a) : (tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16xf32>, tensor<i32>)
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -2 : i32
  %vectors = stablehlo.negate %v : tensor<16x16xf32>
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -2 : i32
  %values = stablehlo.negate %w : tensor<16xf32>
  return %vectors, %values : tensor<16x16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @singular
func.func @singular(%a: tensor<64x16xf32> {scalify.scale = -4 : i32}) -> (tensor<16xf32>, tensor<64x16xf32>, tensor<16x16xf32>) {
  %x, %s, %u, %vt, %info = stablehlo.custom_call @lapack_sgesdd_ffi(%a) : (tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<16xf32>, tensor<64x16xf32>, tensor<16x16xf32>, tensor<i32>)
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -1 : i32
  %values = stablehlo.negate %s : tensor<16xf32>
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -3 : i32
  %left = stablehlo.negate %u : tensor<64x16xf32>
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -2 : i32
  %right = stablehlo.negate %vt : tensor<16x16xf32>
  return %values, %left, %right : tensor<16xf32>, tensor<64x16xf32>, tensor<16x16xf32>
}

// CHECK-LABEL: func.func @orthogonal
func.func @orthogonal(%a: tensor<64x16xf32> {scalify.scale = 2 : i32}) -> tensor<64x16xf32> {
  %qr, %tau = stablehlo.custom_call @cusolver_geqrf_ffi(%a) : (tensor<64x16xf32>) -> (tensor<64x16xf32>, tensor<16xf32>)
  %q = stablehlo.custom_call @cusolver_orgqr_ffi(%qr, %tau) : (tensor<64x16xf32>, tensor<16xf32>) -> tensor<64x16xf32>
  // CHECK: stablehlo.negate {{.*}}scalify.scale = -3 : i32
  %r = stablehlo.negate %q : tensor<64x16xf32>
  return %r : tensor<64x16xf32>
}
