// RUN: scalify-opt %s --scalify-decide-formats | FileCheck %s

// The mean of squares minus the square of the mean, as EM computes a variance:
// three dots over the same data stay wide. One that has nothing to do with the
// difference does not, nor do products of other data that are subtracted.

// CHECK-LABEL: func.func @main
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK-NEXT: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
// CHECK: dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>
// CHECK-NOT: scalify.wide

// Sums over the iterations of a loop, and over two batches.
// CHECK-LABEL: func.func @sums
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.formats = #scalify.formats<f8E4M3FN, f8E4M3FN>

// Sums over ranks. A residual sum minus a product of other dots is no variance.
// CHECK-LABEL: func.func @ranks
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK: dot_general {{.*}}scalify.wide = #scalify.decision<"moment",
// CHECK-LABEL: func.func @residual
// CHECK-NOT: scalify.wide
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @main(%r: tensor<64x8xf32> {scalify.role = #scalify.role<param>}, %x: tensor<64x16xf32> {scalify.role = #scalify.role<param>}, %n: tensor<8x16xf32>, %v: tensor<64x16xf32> {scalify.role = #scalify.role<param>}) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %eps = stablehlo.constant dense<1.0e-06> : tensor<8x16xf32>
    %rh = scalify.scale_hint %r, %s : tensor<64x8xf32>
    %xh = scalify.scale_hint %x, %s : tensor<64x16xf32>
    %vh = scalify.scale_hint %v, %s : tensor<64x16xf32>
    %xx = stablehlo.multiply %x, %x {scalify.phase = #scalify.phase<forward>} : tensor<64x16xf32>
    %xxh = scalify.scale_hint %xx, %s : tensor<64x16xf32>
    %first = stablehlo.dot_general %rh, %xh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %second = stablehlo.dot_general %rh, %xxh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %mean = stablehlo.divide %first, %n {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %squares = stablehlo.divide %second, %n {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %square = stablehlo.multiply %mean, %mean {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %above = stablehlo.add %squares, %eps {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %variance = stablehlo.subtract %above, %square {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %other = stablehlo.dot_general %rh, %vh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %vv = stablehlo.multiply %v, %v {scalify.phase = #scalify.phase<forward>} : tensor<64x16xf32>
    %vvh = scalify.scale_hint %vv, %s : tensor<64x16xf32>
    %third = stablehlo.dot_general %rh, %vvh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %gate = stablehlo.multiply %variance, %other {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %difference = stablehlo.subtract %third, %gate {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    return %variance, %difference : tensor<8x16xf32>, tensor<8x16xf32>
  }

  func.func @sums(%r: tensor<64x8xf32> {scalify.role = #scalify.role<param>}, %x: tensor<64x16xf32> {scalify.role = #scalify.role<param>}, %v: tensor<64x16xf32> {scalify.role = #scalify.role<param>}) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %zero = stablehlo.constant dense<0.0> : tensor<8x16xf32>
    %start = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %rh = scalify.scale_hint %r, %s : tensor<64x8xf32>
    %xh = scalify.scale_hint %x, %s : tensor<64x16xf32>
    %vh = scalify.scale_hint %v, %s : tensor<64x16xf32>
    %xx = stablehlo.multiply %x, %x {scalify.phase = #scalify.phase<forward>} : tensor<64x16xf32>
    %xxh = scalify.scale_hint %xx, %s : tensor<64x16xf32>
    %loop:3 = stablehlo.while(%i = %start, %m = %zero, %q = %zero) : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %first = stablehlo.dot_general %rh, %xh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
      %second = stablehlo.dot_general %rh, %xxh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
      %mNext = stablehlo.add %m, %first {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
      %qNext = stablehlo.add %q, %second {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %mNext, %qNext : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>
    }
    %third = stablehlo.dot_general %rh, %xh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %fourth = stablehlo.dot_general %rh, %xxh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %other = stablehlo.dot_general %rh, %vh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %sum = stablehlo.add %loop#1, %third {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %squares = stablehlo.add %fourth, %loop#2 {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %square = stablehlo.multiply %sum, %sum {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %variance = stablehlo.subtract %squares, %square {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    return %variance, %other : tensor<8x16xf32>, tensor<8x16xf32>
  }

  func.func @ranks(%r: tensor<64x8xf32> {scalify.role = #scalify.role<param>}, %x: tensor<64x16xf32> {scalify.role = #scalify.role<param>}) -> tensor<8x16xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %rh = scalify.scale_hint %r, %s : tensor<64x8xf32>
    %xh = scalify.scale_hint %x, %s : tensor<64x16xf32>
    %xx = stablehlo.multiply %x, %x {scalify.phase = #scalify.phase<forward>} : tensor<64x16xf32>
    %xxh = scalify.scale_hint %xx, %s : tensor<64x16xf32>
    %first = stablehlo.dot_general %rh, %xh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %second = stablehlo.dot_general %rh, %xxh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %f, %q = "stablehlo.all_reduce"(%first, %second) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) {scalify.phase = #scalify.phase<forward>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    %square = stablehlo.multiply %f, %f {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %variance = stablehlo.subtract %q, %square {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    return %variance : tensor<8x16xf32>
  }

  func.func @residual(%r: tensor<64x8xf32> {scalify.role = #scalify.role<param>}, %x: tensor<64x16xf32> {scalify.role = #scalify.role<param>}, %v: tensor<64x16xf32> {scalify.role = #scalify.role<param>}) -> tensor<8x16xf32> {
    %s = stablehlo.constant dense<1.0> : tensor<f32>
    %rh = scalify.scale_hint %r, %s : tensor<64x8xf32>
    %xh = scalify.scale_hint %x, %s : tensor<64x16xf32>
    %vh = scalify.scale_hint %v, %s : tensor<64x16xf32>
    %first = stablehlo.dot_general %rh, %xh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %second = stablehlo.dot_general %rh, %vh, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    %sum = stablehlo.add %first, %second {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %gate = stablehlo.multiply %first, %second {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    %difference = stablehlo.subtract %sum, %gate {scalify.phase = #scalify.phase<forward>} : tensor<8x16xf32>
    return %difference : tensor<8x16xf32>
  }
}
