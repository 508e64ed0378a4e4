// RUN: scalify-opt %s --scalify-annotate-phases --scalify-judge-plain-form="scaling=builtin.module(scalify-annotate-phases,scalify-widen-values,scalify-measure-arguments,scalify-place-rescales,scalify-propagate{remarks=false},scalify-apply-rescales)" -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-annotate-phases --scalify-judge-plain-form="scaling=builtin.module(scalify-annotate-phases,scalify-widen-values,scalify-measure-arguments,scalify-place-rescales,scalify-propagate{remarks=false},scalify-apply-rescales)" --scalify-propagate=remarks=0 --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-delay-scales -split-input-file | FileCheck %s --check-prefix=AFTER

// AFTER-NOT: {{scalify.plain|scalify.dot_role}}

// A tanh of values above 1 has a root mean square of about 0.8: three of them
// added to a stream of 1 make it sqrt(1 + 3 * 0.64) = 1.7, by the last product
// nearer to 2^1 than to 2^0. A loop, which has one scale, is in the middle of
// its trips.
// CHECK-LABEL: func.func @main
// CHECK-SAME: attributes {scalify.plain_form}
// CHECK: stablehlo.while
// CHECK: stablehlo.dot_general {{.*}}scalify.plain_scales = array<i32: 1, 0>
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8x8xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %d = stablehlo.dot_general %v, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#dot)
    %t = stablehlo.tanh %d : tensor<8x8xf32>
    %s = stablehlo.add %v, %t : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<8x8xf32>
  }
  return %0#1 : tensor<8x8xf32>
}
}
#dot = loc("jit(step)/while/body/dot_general"("model.py":12:4))

// -----

// Written out, all of its products have the largest scale of one of them.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: stablehlo.dot_general {{.*}}scalify.plain_scales = array<i32: 1, 0>
// CHECK-NOT: stablehlo.dot_general
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> tensor<8x8xf32> {
  %d0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#dot)
  %t0 = stablehlo.tanh %d0 : tensor<8x8xf32>
  %s0 = stablehlo.add %x, %t0 : tensor<8x8xf32>
  %d1 = stablehlo.dot_general %s0, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#dot)
  %t1 = stablehlo.tanh %d1 : tensor<8x8xf32>
  %s1 = stablehlo.add %s0, %t1 : tensor<8x8xf32>
  %d2 = stablehlo.dot_general %s1, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#dot)
  %t2 = stablehlo.tanh %d2 : tensor<8x8xf32>
  %s2 = stablehlo.add %s1, %t2 : tensor<8x8xf32>
  %d3 = stablehlo.dot_general %s2, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(#dot)
  %t3 = stablehlo.tanh %d3 : tensor<8x8xf32>
  %s3 = stablehlo.add %s2, %t3 : tensor<8x8xf32>
  return %s3 : tensor<8x8xf32>
}
}
#dot = loc("jit(step)/dot_general"("model.py":12:4))

// -----

// What a checkpoint makes again, behind a barrier and at a place of which
// nothing is known, is decided with what it was first.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: stablehlo.dot_general {{.*}}scalify.plain_scales = array<i32: 3, 0>
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<8x8xf32> {scalify.scale = 3 : i32}, %w: tensor<8x8xf32> {scalify.scale = 0 : i32}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = stablehlo.optimization_barrier %x : tensor<8x8xf32>
  %e = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = stablehlo.tanh %e : tensor<8x8xf32>
  return %d, %t : tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// Other recipes are left as they are.
// CHECK-LABEL: func.func @main
// CHECK-NOT: scalify.plain
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}
}

// -----

// One place may hold ops of any size, as that of the squares of a matrix power:
// dots whose scales lie further apart than one format reaches are apart.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.dot_general {{.*}}scalify.plain_class = 0 : i64, scalify.plain_scales = array<i32: 5, 5>
// CHECK: stablehlo.dot_general {{.*}}scalify.plain_class = 1 : i64, scalify.plain_scales = array<i32: 13, 13>
// CHECK: stablehlo.dot_general {{.*}}scalify.plain_class = 2 : i64, scalify.plain_scales = array<i32: 29, 29>
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed">} {
func.func @main(%x: tensor<64x64xf32> {scalify.scale = 5 : i32}) -> tensor<64x64xf32> {
  %2 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#dot)
  %4 = stablehlo.dot_general %2, %2, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#dot)
  %8 = stablehlo.dot_general %4, %4, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#dot)
  return %8 : tensor<64x64xf32>
}
}
#dot = loc("jit(step)/jit(matrix_power)/dot_general"("model.py":12:4))
