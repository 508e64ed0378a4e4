// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s

// Rows of a table that starts at 2^-5 have room of two binades, to 2^-3. Rows of
// what is no parameter stay as they are.
// CHECK-LABEL: func.func @embedding
func.func @embedding(%table: tensor<256x64xf32> {scalify.scale = -5 : i32, scalify.role = #scalify.role<param>},
                     %data: tensor<256x64xf32> {scalify.scale = -5 : i32, scalify.role = #scalify.role<batch>},
                     %i: tensor<8x1xi32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: "stablehlo.gather"{{.*}}scalify.rule = "rows of a small table: room towards 2^-3", scalify.scale = -3 : i32
  %x = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  // CHECK: "stablehlo.gather"{{.*}}scalify.scale = -5 : i32
  %y = "stablehlo.gather"(%data, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  return %x, %y : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// Of 2^-4 there is one binade to 2^-3, of 2^-7 two to 2^-5, of 2^-2 none.
// CHECK-LABEL: func.func @other_sizes
func.func @other_sizes(%table: tensor<256x64xf32> {scalify.scale = -4 : i32, scalify.role = #scalify.role<param>},
                       %small: tensor<256x64xf32> {scalify.scale = -7 : i32, scalify.role = #scalify.role<param>},
                       %large: tensor<256x64xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>},
                       %i: tensor<8x1xi32>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: "stablehlo.gather"{{.*}}scalify.scale = -3 : i32
  %x = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  // CHECK: "stablehlo.gather"{{.*}}scalify.scale = -5 : i32
  %y = "stablehlo.gather"(%small, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  // CHECK: "stablehlo.gather"{{.*}}scalify.scale = -2 : i32
  %z = "stablehlo.gather"(%large, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}> : (tensor<256x64xf32>, tensor<8x1xi32>) -> tensor<8x64xf32>
  return %x, %y, %z : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// A matrix that is looked up, as an expert's weights are, is no row.
// CHECK-LABEL: func.func @experts
func.func @experts(%table: tensor<4x64x64xf32> {scalify.scale = -5 : i32, scalify.role = #scalify.role<param>},
                   %i: tensor<8x1xi32>) -> tensor<8x64x64xf32> {
  // CHECK: "stablehlo.gather"{{.*}}scalify.scale = -5 : i32
  %x = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 64, 64>}> : (tensor<4x64x64xf32>, tensor<8x1xi32>) -> tensor<8x64x64xf32>
  return %x : tensor<8x64x64xf32>
}
