// Loops are executed on facts; each carry has one scale, the middle of its
// exponents.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" -split-input-file | FileCheck %s

// A residual stream from 2^0 adds a dot of about 2^0 in each of 16 iterations:
// variances add up to 17, so its exponents span 0 .. 2.04, and the middle is 1.
// CHECK-LABEL: func.func @residual
// CHECK:         stablehlo.while
// CHECK-SAME:      scalify.carry_scales = array<i64: 0, 1>
// CHECK:           scalify.scale_hint %{{.*}}, %{{.*}} {rule = "tanh: bounded by 1"}
// CHECK:           scalify.scale_hint %arg1,
// CHECK:           stablehlo.dot_general
// The result is what the last iteration leaves.
// CHECK:         stablehlo.negate {{.*}}scalify.scale = 2 : i32
func.func @residual(%x: tensor<4x64xf32> {scalify.scale = 0 : i32},
                    %w: tensor<64x64xf32> {scalify.scale = -3 : i32}) -> tensor<4x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<16> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<4x64xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %h = stablehlo.tanh %c : tensor<4x64xf32>
    %d = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %s = stablehlo.add %c, %d : tensor<4x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<4x64xf32>
  }
  %last = stablehlo.negate %r#1 : tensor<4x64xf32>
  return %last : tensor<4x64xf32>
}

// -----

// An accumulator starts at a zero that fits any scale, and takes that of what
// it adds: 2^-5 to 2^-4 over four iterations. Slices stacked over iterations
// have the scale of the slice.
// CHECK-LABEL: func.func @accumulate
// CHECK:         stablehlo.while
// CHECK-SAME:      scalify.carry_scales = array<i64: 0, 0, -5, -5>
// CHECK:           %[[X:.*]] = stablehlo.dynamic_slice
// CHECK-NEXT:      stablehlo.dynamic_update_slice %{{.*}}, %[[X]]
func.func @accumulate(%xs: tensor<4x8x8xf32> {scalify.scale = -5 : i32}) -> (tensor<8x8xf32>, tensor<4x8x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %sum = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %ys = stablehlo.constant dense<0.0> : tensor<4x8x8xf32>
  %r:4 = stablehlo.while(%i = %zero, %m = %n, %c = %sum, %y = %ys) : tensor<i32>, tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %x = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %v = stablehlo.dynamic_update_slice %y, %x, %i, %zero, %zero : (tensor<4x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x8x8xf32>
    %e = stablehlo.reshape %x : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %s = stablehlo.add %c, %e : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %m, %s, %v : tensor<i32>, tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
  }
  return %r#2, %r#3 : tensor<8x8xf32>, tensor<4x8x8xf32>
}

// -----

// Integers pass untouched, and rank-0 carries stay true.
// CHECK-LABEL: func.func @scalars
// CHECK:         scalify.carry_scales = array<i64: 0, 0, 0>
// CHECK:         return
func.func @scalars(%key: tensor<2xui32>, %loss: tensor<f32>) -> (tensor<2xui32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %k = %key, %l = %loss) : tensor<i32>, tensor<2xui32>, tensor<f32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %x = stablehlo.xor %k, %k : tensor<2xui32>
    %s = stablehlo.add %l, %l : tensor<f32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %x, %s : tensor<i32>, tensor<2xui32>, tensor<f32>
  }
  return %r#1, %r#2 : tensor<2xui32>, tensor<f32>
}

// -----

// Zeros that the loop carries are constants: ELU's exponential is of what is
// below them.
// CHECK-LABEL: func.func @carried_zeros
func.func @carried_zeros(%x: tensor<8x8xf32> {scalify.scale = 1 : i32}) -> tensor<8x8xf32> {
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %1:3 = stablehlo.while(%i = %0, %z = %zeros, %c = %x) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %4 = stablehlo.constant dense<4> : tensor<i32>
    %p = stablehlo.compare LT, %i, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %p = stablehlo.compare GT, %x, %z : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xi1>
    // CHECK: stablehlo.select {{.*}}scalify.rule = "threshold: keeps what is beyond"
    %s = stablehlo.select %p, %z, %x : tensor<8x8xi1>, tensor<8x8xf32>
    %e = stablehlo.exponential_minus_one %s : tensor<8x8xf32>
    %n = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %n : tensor<i32>
    stablehlo.return %j, %z, %e : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %1#2 : tensor<8x8xf32>
}
