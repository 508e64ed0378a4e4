// RUN: scalify-opt %s | FileCheck %s

// Loops, branches and barriers.

// CHECK-LABEL: func.func @while
func.func @while(%i: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<4xf32>
  %0:2 = stablehlo.while(%iterArg = %i, %iterArg_0 = %a) : tensor<i32>, tensor<4xf32>
  // CHECK-NEXT: cond {
  cond {
  // CHECK: stablehlo.constant dense<3> : tensor<i32>
  %c = stablehlo.constant dense<3> : tensor<i32>
  // CHECK: stablehlo.compare LT, %{{.*}}, %{{.*}}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %1 = stablehlo.compare LT, %iterArg, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
  // CHECK: } do {
  } do {
  // CHECK: stablehlo.add %{{.*}}, %{{.*}} : tensor<i32>
  %1 = stablehlo.add %iterArg, %iterArg : tensor<i32>
  stablehlo.return %1, %iterArg_0 : tensor<i32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @while_without_values
func.func @while_without_values() {
  // CHECK: stablehlo.while() attributes {mhlo.x = 1 : i32}
  stablehlo.while() attributes {mhlo.x = 1 : i32}
  cond {
  // CHECK: stablehlo.constant dense<false> : tensor<i1>
  %c = stablehlo.constant dense<false> : tensor<i1>
  stablehlo.return %c : tensor<i1>
  } do {
  stablehlo.return
  }
  return
}

// CHECK-LABEL: func.func @branches
func.func @branches(%i: tensor<i32>, %p: tensor<i1>, %a: tensor<4xf32>) {
  // CHECK: "stablehlo.case"(%{{.*}}) ({
  %0 = "stablehlo.case"(%i) ({
  stablehlo.return %a : tensor<4xf32>
  }, {
  // CHECK: stablehlo.negate %{{.*}} : tensor<4xf32>
  %1 = stablehlo.negate %a : tensor<4xf32>
  stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  // CHECK: "stablehlo.if"(%{{.*}}) ({
  %2 = "stablehlo.if"(%p) ({
  stablehlo.return %a : tensor<4xf32>
  }, {
  stablehlo.return %0 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @barrier
func.func @barrier(%a: tensor<4xf32>, %i: tensor<i32>) {
  // CHECK: stablehlo.optimization_barrier %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<i32>
  %0:2 = stablehlo.optimization_barrier %a, %i : tensor<4xf32>, tensor<i32>
  // CHECK: stablehlo.optimization_barrier()
  stablehlo.optimization_barrier ()
  return
}
