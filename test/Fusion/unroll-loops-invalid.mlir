// RUN: scalify-opt %s --pass-pipeline='builtin.module(func.func(scalify-unroll-loops{max-ops=100}))' -verify-diagnostics -split-input-file

func.func @until(%a: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{runs a number of times that is not known: a plan has such loops without collectives}}
  %r = stablehlo.while(%x = %a) : tensor<f32>
    cond {
      %p = stablehlo.compare LT, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %x : tensor<f32>
      stablehlo.return %y : tensor<f32>
    }
  return %r : tensor<f32>
}

// -----

func.func @long(%a: tensor<f32>) -> tensor<f32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<40> : tensor<i32>
  // expected-error @+1 {{would become 40 times 3 ops, and there may be 100 in all}}
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %x : tensor<f32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}

// -----

// The inner loop is met a second time when the first has used up the ops.
func.func @nested(%a: tensor<f32>) -> tensor<f32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<20> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      // expected-error @+1 {{would become 20 times 3 ops, and there may be 100 in all}}
      %q:2 = stablehlo.while(%k = %c0, %y = %x) : tensor<i32>, tensor<f32>
        cond {
          %p = stablehlo.compare LT, %k, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %z = stablehlo.add %y, %y : tensor<f32>
          %l = stablehlo.add %k, %c1 : tensor<i32>
          stablehlo.return %l, %z : tensor<i32>, tensor<f32>
        }
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %q#1 : tensor<i32>, tensor<f32>
    }
  return %r#1 : tensor<f32>
}
