// RUN: scalify-opt %s --scalify-set-priors="use=none" --scalify-propagate="remarks=0" -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-propagate="remarks=0" -split-input-file | FileCheck %s --check-prefix=PRIOR

// Attention over a graph's edges: a softmax over the edges that end at one
// node, by a scatter of their maximum and one of their sum, which each edge
// gathers its own of. With negative indices counted from the end, as JAX
// gathers.
// CHECK-LABEL: func.func @segments
func.func @segments(%score: tensor<256xf32> {scalify.scale = 1 : i32}, %node: tensor<256xi32>) -> tensor<256xf32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<64xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<64xf32>
  %tiny = stablehlo.constant dense<1.0e-9> : tensor<256xf32>
  %c0 = stablehlo.constant dense<0> : tensor<256xi32>
  %c64 = stablehlo.constant dense<64> : tensor<256xi32>
  %negative = stablehlo.compare LT, %node, %c0, SIGNED : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1>
  %wrapped = stablehlo.add %node, %c64 : tensor<256xi32>
  %from = stablehlo.select %negative, %wrapped, %node : tensor<256xi1>, tensor<256xi32>
  %to = stablehlo.reshape %node : (tensor<256xi32>) -> tensor<256x1xi32>
  %at = stablehlo.reshape %from : (tensor<256xi32>) -> tensor<256x1xi32>
  %max = "stablehlo.scatter"(%least, %to, %score) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<64xf32>, tensor<256x1xi32>, tensor<256xf32>) -> tensor<64xf32>
  %own = "stablehlo.gather"(%max, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<64xf32>, tensor<256x1xi32>) -> tensor<256xf32>
  %below = stablehlo.subtract %score, %own : tensor<256xf32>
  // CHECK: stablehlo.exponential {{.*}}scalify.rule = "softmax's numerator: below the largest of a row", scalify.scale = -1 : i32
  // PRIOR: stablehlo.exponential {{.*}}scalify.rule = "prior: N^(1/2) elements of a softmax matter", scalify.scale = 0 : i32
  %e = stablehlo.exponential %below : tensor<256xf32>
  %sum = "stablehlo.scatter"(%zeros, %to, %e) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<64xf32>, tensor<256x1xi32>, tensor<256xf32>) -> tensor<64xf32>
  %all = "stablehlo.gather"(%sum, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<64xf32>, tensor<256x1xi32>) -> tensor<256xf32>
  %total = stablehlo.add %all, %tiny : tensor<256xf32>
  // CHECK: stablehlo.divide {{.*}}scalify.rule = "softmax: bounded by 1"
  %weight = stablehlo.divide %e, %total : tensor<256xf32>
  return %weight : tensor<256xf32>
}

// -----

// Another node's maximum may be below an edge's score.
// CHECK-LABEL: func.func @other_nodes
// CHECK-NOT: softmax
func.func @other_nodes(%score: tensor<256xf32> {scalify.scale = 1 : i32}, %to: tensor<256x1xi32>, %from: tensor<256x1xi32>) -> tensor<256xf32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<64xf32>
  %max = "stablehlo.scatter"(%least, %to, %score) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %r = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<64xf32>, tensor<256x1xi32>, tensor<256xf32>) -> tensor<64xf32>
  %own = "stablehlo.gather"(%max, %from) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<64xf32>, tensor<256x1xi32>) -> tensor<256xf32>
  %below = stablehlo.subtract %score, %own : tensor<256xf32>
  %e = stablehlo.exponential %below : tensor<256xf32>
  return %e : tensor<256xf32>
}
