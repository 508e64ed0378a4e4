// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @while_cond(%i: tensor<i32>) {
  // expected-error @+1 {{needs a cond that returns}}
  %0 = stablehlo.while(%x = %i) : tensor<i32> cond {
  // expected-note @+1 {{returned here}}
    stablehlo.return %x : tensor<i32>
  } do {
    stablehlo.return %x : tensor<i32>
  }
  return
}

// -----

func.func @while_body(%i: tensor<i32>) {
  // expected-error @+1 {{needs a body that returns}}
  %0 = stablehlo.while(%x = %i) : tensor<i32> cond {
    %p = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
  // expected-note @+1 {{returned here}}
    stablehlo.return
  }
  return
}

// -----

func.func @case_results(%i: tensor<i32>, %a: tensor<4xf32>) {
  // expected-error @+1 {{needs a branch that returns}}
  %0 = "stablehlo.case"(%i) ({
    stablehlo.return %a : tensor<4xf32>
  }, {
  // expected-note @+1 {{returned here}}
    stablehlo.return %i : tensor<i32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @case_empty(%i: tensor<i32>) {
  // expected-error @+1 {{needs at least one branch}}
  "stablehlo.case"(%i) : (tensor<i32>) -> ()
  return
}

// -----

func.func @if_pred(%p: tensor<2xi1>) {
  // expected-error @+1 {{operand #0 must be 0D tensor of pred}}
  "stablehlo.if"(%p) ({
    stablehlo.return
  }, {
    stablehlo.return
  }) : (tensor<2xi1>) -> ()
  return
}

// -----

func.func @barrier(%a: tensor<4xf32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = "stablehlo.optimization_barrier"(%a) : (tensor<4xf32>) -> tensor<5xf32>
  return
}
