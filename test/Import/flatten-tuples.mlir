// RUN: scalify-opt %s --scalify-flatten-tuples -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-import -split-input-file | FileCheck --check-prefix=NAMES %s

// A donated tuple donates its elements, and results behind a tuple move.

// CHECK-LABEL: func.func public @main(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4xf32> {scalify.name = "state[0]", tf.aliasing_output = 1 : i32}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<i32> {scalify.name = "state[1][0]", tf.aliasing_output = 2 : i32}
// CHECK-SAME: %[[C:[a-z0-9]+]]: tensor<2xf32> {tf.aliasing_output = 0 : i32})
// CHECK-SAME: -> (tensor<2xf32>, tensor<4xf32> {jax.result_info = "state[0]"},
// CHECK-SAME: tensor<i32> {jax.result_info = "state[1][0]"})
// CHECK-NEXT: %[[D:.*]] = stablehlo.negate %[[A]]
// CHECK-NEXT: return %[[C]], %[[D]], %[[B]]
// NAMES: {scalify.name = "state[0]"
// NAMES-SAME: {scalify.name = "state[1][0]"
// NAMES-SAME: {scalify.name = "arg2"
func.func public @main(%t: tuple<tensor<4xf32>, tuple<tensor<i32>>> {tf.aliasing_output = 1 : i32},
                       %c: tensor<2xf32> {tf.aliasing_output = 0 : i32})
    -> (tensor<2xf32>, tuple<tensor<4xf32>, tuple<tensor<i32>>> {jax.result_info = "state"}) {
  %0 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4xf32>, tuple<tensor<i32>>>) -> tensor<4xf32>
  %1 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<4xf32>, tuple<tensor<i32>>>) -> tuple<tensor<i32>>
  %2 = stablehlo.negate %0 : tensor<4xf32>
  %3 = stablehlo.tuple %2, %1 : tuple<tensor<4xf32>, tuple<tensor<i32>>>
  return %c, %3 : tensor<2xf32>, tuple<tensor<4xf32>, tuple<tensor<i32>>>
}

// -----

// A carry and a branch that are tuples, and a tuple without elements.

// CHECK-LABEL: func.func public @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<f32> {scalify.name = "carry[0]"}, %[[N:[a-z0-9]+]]: tensor<i32> {scalify.name = "carry[1]"}, %[[P:[a-z0-9]+]]: tensor<i1>)
// CHECK-NOT: tuple
// CHECK: %[[LOOP:.*]]:2 = stablehlo.while(%[[I:.*]] = %[[X]], %[[J:.*]] = %[[N]]) : tensor<f32>, tensor<i32>
// CHECK: %[[SUM:.*]] = stablehlo.add %[[I]], %[[I]]
// CHECK: %[[LESS:.*]] = stablehlo.subtract %[[J]]
// CHECK: stablehlo.return %[[SUM]], %[[LESS]] : tensor<f32>, tensor<i32>
// CHECK: %[[IF:.*]]:2 = "stablehlo.if"(%[[P]])
// CHECK: stablehlo.return %[[LOOP]]#0, %[[LOOP]]#1
// CHECK: return %[[IF]]#0, %[[IF]]#1
// CHECK-NOT: tuple
func.func public @main(%t: tuple<tensor<f32>, tensor<i32>, tuple<>> loc("carry"), %p: tensor<i1>)
    -> tuple<tensor<f32>, tensor<i32>> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %x = stablehlo.get_tuple_element %t[0] : (tuple<tensor<f32>, tensor<i32>, tuple<>>) -> tensor<f32>
  %n = stablehlo.get_tuple_element %t[1] : (tuple<tensor<f32>, tensor<i32>, tuple<>>) -> tensor<i32>
  %start = stablehlo.tuple %x, %n : tuple<tensor<f32>, tensor<i32>>
  %loop = "stablehlo.while"(%start) ({
  ^bb0(%c: tuple<tensor<f32>, tensor<i32>>):
    %j = stablehlo.get_tuple_element %c[1] : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>
    %more = stablehlo.compare GT, %j, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }, {
  ^bb0(%c: tuple<tensor<f32>, tensor<i32>>):
    %i = stablehlo.get_tuple_element %c[0] : (tuple<tensor<f32>, tensor<i32>>) -> tensor<f32>
    %j = stablehlo.get_tuple_element %c[1] : (tuple<tensor<f32>, tensor<i32>>) -> tensor<i32>
    %sum = stablehlo.add %i, %i : tensor<f32>
    %less = stablehlo.subtract %j, %one : tensor<i32>
    %next = stablehlo.tuple %sum, %less : tuple<tensor<f32>, tensor<i32>>
    stablehlo.return %next : tuple<tensor<f32>, tensor<i32>>
  }) : (tuple<tensor<f32>, tensor<i32>>) -> tuple<tensor<f32>, tensor<i32>>
  %chosen = "stablehlo.if"(%p) ({
    stablehlo.return %loop : tuple<tensor<f32>, tensor<i32>>
  }, {
    stablehlo.return %start : tuple<tensor<f32>, tensor<i32>>
  }) : (tensor<i1>) -> tuple<tensor<f32>, tensor<i32>>
  return %chosen : tuple<tensor<f32>, tensor<i32>>
}
