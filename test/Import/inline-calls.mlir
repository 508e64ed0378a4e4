// RUN: scalify-opt %s --scalify-inline-calls | FileCheck %s
// RUN: scalify-opt %s --scalify-inline-calls --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[I:.*]]: tensor<i32>)
// CHECK-NEXT: %[[NEG:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT: %[[EXP:.*]] = stablehlo.exponential %[[NEG]]
// CHECK-NEXT: %[[CASE:.*]] = "stablehlo.case"(%[[I]])
// CHECK-NEXT:   %[[IN:.*]] = stablehlo.negate %[[EXP]]
// CHECK-NEXT:   stablehlo.return %[[IN]]
// CHECK:        stablehlo.return %[[X]]
// CHECK:      return %[[CASE]]
// CHECK-NOT: func.func

// A callee's names follow those of its call.
// LOC: stablehlo.negate {{.*}} loc([[NEG:#loc[0-9]*]])
// LOC-DAG: [[INNER:#loc[0-9]*]] = loc("neg")
// LOC-DAG: [[OUTER:#loc[0-9]*]] = loc("outer/call")
// LOC-DAG: [[STEP:#loc[0-9]*]] = loc("jit(step)/jvp()/outer")
// LOC-DAG: [[CALLS:#loc[0-9]*]] = loc(callsite([[OUTER]] at [[STEP]]))
// LOC-DAG: [[NEG]] = loc(callsite([[INNER]] at [[CALLS]]))
func.func public @main(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %0 = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("jit(step)/jvp()/outer")
  %1 = "stablehlo.case"(%i) ({
    %2 = func.call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %2 : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("outer/call")
  %1 = stablehlo.exponential %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32> loc("neg")
  return %0 : tensor<4xf32>
}
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
