// RUN: scalify-opt %s --scalify-refine-shapes=arg-shapes=x=4x8 | FileCheck %s
// RUN: scalify-opt %s --scalify-import=arg-shapes=0=4x8 | FileCheck --check-prefix=IMPORT %s

// Types and sizes follow; what asserts a size is gone. Ops whose sizes are now constants become
// static here if their type follows from that, else in canonicalization.

// CHECK-LABEL: func.func public @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>,
// CHECK-SAME: -> (tensor<8x8xf32>, tensor<3x8xf32>, tensor<4x8xf32>, tensor<32xf32>)
// CHECK-NOT: shape_assertion
// CHECK: %[[EIGHT:.*]] = stablehlo.constant dense<8> : tensor<2xi32>
// CHECK: stablehlo.dynamic_broadcast_in_dim %{{.*}}, %[[EIGHT]], dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<8x8xf32>
// CHECK: stablehlo.slice %[[X]] [1:4, 0:8] : (tensor<4x8xf32>) -> tensor<3x8xf32>
// CHECK: stablehlo.while(%[[I:.*]] = %[[X]], %{{.*}} = %{{.*}}) : tensor<4x8xf32>, tensor<i32>
// CHECK: stablehlo.add %[[I]], %[[I]] : tensor<4x8xf32>
// CHECK: %[[FLAT:.*]] = stablehlo.constant dense<32> : tensor<1xi32>
// CHECK: stablehlo.dynamic_reshape %{{.*}}, %[[FLAT]] : (tensor<4x8xf32>, tensor<1xi32>) -> tensor<32xf32>
// IMPORT: stablehlo.slice %arg0 [1:4, 0:8]
// IMPORT-NOT: dynamic
func.func public @main(%x: tensor<?x8xf32> loc("x"), %n: tensor<i32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %eight = stablehlo.constant dense<8> : tensor<1xi32>
  %number = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %ok = stablehlo.compare GE, %b, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.custom_call @shape_assertion(%ok, %b) {api_version = 2 : i32, error_message = "{0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  %c = stablehlo.multiply %b, %two : tensor<i32>
  %d = stablehlo.reshape %c : (tensor<i32>) -> tensor<1xi32>
  %s = stablehlo.concatenate %d, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %number, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x8xf32>
  %start = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %e = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
  %limit = stablehlo.concatenate %e, %eight, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %1 = stablehlo.real_dynamic_slice %x, %start, %limit, %ones : (tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x8xf32>
  %2:2 = stablehlo.while(%i = %x, %j = %n) : tensor<?x8xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare GT, %j, %zero, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %y = stablehlo.add %i, %i : tensor<?x8xf32>
    %k = stablehlo.subtract %j, %one : tensor<i32>
    stablehlo.return %y, %k : tensor<?x8xf32>, tensor<i32>
  }
  %count = stablehlo.multiply %e, %eight : tensor<1xi32>
  %3 = stablehlo.dynamic_reshape %2#0, %count : (tensor<?x8xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0, %1, %2#0, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>, tensor<?xf32>
}
