// RUN: scalify-opt %s --scalify-shard-batch="ranks=4" -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-shard-batch -split-input-file | FileCheck %s --check-prefix=ONE

// Of the batch each rank has rows, of all else the whole.
// CHECK: sdy.mesh @mesh = <["data"=4]>
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<8x4xf32> {scalify.role = #scalify.role<param>, sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// CHECK-SAME: tensor<16x8xf32> {scalify.role = #scalify.role<batch>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// CHECK-SAME: tensor<2xui32> {scalify.role = #scalify.role<input>, sdy.sharding = #sdy.sharding<@mesh, [{}]>}
// CHECK-SAME: -> (tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
// ONE-NOT: sdy
func.func @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>}, %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>},
                %key: tensor<2xui32> {scalify.role = #scalify.role<input>}) -> tensor<16x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}

// -----

// A loop takes 8 micro-batches apart: rows are those of each.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<8x4x2xf32> {scalify.role = #scalify.role<batch>, sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}
func.func @main(%x: tensor<8x4x2xf32> {scalify.role = #scalify.role<batch>}) -> tensor<1x4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<1x4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %c = %start) : tensor<i32>, tensor<1x4x2xf32>
  cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<8x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %sum = stablehlo.add %c, %part : tensor<1x4x2xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %sum : tensor<i32>, tensor<1x4x2xf32>
  }
  return %r#1 : tensor<1x4x2xf32>
}

// -----

// It is taken apart behind moves; what a loop reads whole, over layers, has its
// rows in front.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<8x4x3xf32> {scalify.role = #scalify.role<batch>, sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}
// CHECK-SAME: tensor<4x2xf32> {scalify.role = #scalify.role<batch>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
func.func @main(%x: tensor<8x4x3xf32> {scalify.role = #scalify.role<batch>}, %m: tensor<4x2xf32> {scalify.role = #scalify.role<batch>}) -> tensor<1x4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<1x4x2xf32>
  %cut = stablehlo.slice %x [0:8, 0:4, 0:2] : (tensor<8x4x3xf32>) -> tensor<8x4x2xf32>
  %r:4 = stablehlo.while(%i = %zero, %c = %start, %b = %cut, %w = %m) : tensor<i32>, tensor<1x4x2xf32>, tensor<8x4x2xf32>, tensor<4x2xf32>
  cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %b, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<8x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %whole = stablehlo.reshape %w : (tensor<4x2xf32>) -> tensor<1x4x2xf32>
    %more = stablehlo.add %part, %whole : tensor<1x4x2xf32>
    %sum = stablehlo.add %c, %more : tensor<1x4x2xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %sum, %b, %w : tensor<i32>, tensor<1x4x2xf32>, tensor<8x4x2xf32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<1x4x2xf32>
}
