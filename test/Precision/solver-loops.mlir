// RUN: scalify-opt %s --scalify-decide-formats 2>/dev/null | FileCheck %s

// In a loop that factorises, dots that read what the factor has led to stay
// wide: at once, and in a later iteration. A dot of the loop that does not read
// it, and dots around a factorisation outside of loops, follow the recipe.

// CHECK-LABEL: func.func @filter
// CHECK: stablehlo.while
// CHECK: dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"solver",
// CHECK: stablehlo.cholesky
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"solver",
// CHECK: dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
// CHECK-LABEL: func.func @whiten
// CHECK-NOT: "solver"
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @filter(%f: tensor<16x16xf32> {scalify.role = #scalify.role<param>}, %p: tensor<16x16xf32>, %x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %start = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %fh = scalify.scale_hint %f, %s : tensor<16x16xf32>
    %xh = scalify.scale_hint %x, %s : tensor<16x16xf32>
    %loop:3 = stablehlo.while(%i = %start, %c = %p, %n = %x) : tensor<i32>, tensor<16x16xf32>, tensor<16x16xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %other = stablehlo.dot_general %fh, %xh, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %ch = scalify.scale_hint %c, %s : tensor<16x16xf32>
      %next = stablehlo.dot_general %fh, %ch, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %root = stablehlo.cholesky %next, lower = true {scalify.phase = #scalify.phase<forward>} : tensor<16x16xf32>
      %rh = scalify.scale_hint %root, %s : tensor<16x16xf32>
      %gain = stablehlo.dot_general %fh, %rh, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %gain, %other : tensor<i32>, tensor<16x16xf32>, tensor<16x16xf32>
    }
    %lh = scalify.scale_hint %loop#1, %s : tensor<16x16xf32>
    %out = stablehlo.dot_general %fh, %lh, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %out, %loop#2 : tensor<16x16xf32>, tensor<16x16xf32>
  }

  func.func @whiten(%f: tensor<16x16xf32> {scalify.role = #scalify.role<param>}, %x: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %fh = scalify.scale_hint %f, %s : tensor<16x16xf32>
    %root = stablehlo.cholesky %x, lower = true {scalify.phase = #scalify.phase<forward>} : tensor<16x16xf32>
    %rh = scalify.scale_hint %root, %s : tensor<16x16xf32>
    %out = stablehlo.dot_general %fh, %rh, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %out : tensor<16x16xf32>
  }
}
