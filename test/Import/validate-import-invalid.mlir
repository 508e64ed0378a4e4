// RUN: scalify-opt %s --scalify-validate-import -split-input-file -verify-diagnostics

// expected-error @+1 {{the module has no public function '@main'}}
module {
}

// -----

func.func public @main() {
  return
}
// expected-error @+1 {{'func.func' op is left beside '@main'; run --scalify-inline-calls first}}
func.func private @f() {
  return
}

// -----

func.func public @main(%x: tensor<4xi64> {scalify.role = #scalify.role<batch>, scalify.name = "x"}) -> tensor<4xi64> {
  // expected-error @+1 {{'chlo.mulhi' op has no expansion in stablehlo for 'tensor<4xi64>'; compute it outside of the compiled function or write it with other ops}}
  %0 = chlo.mulhi %x, %x : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// -----

func.func public @main(%x: tensor<4xf16>, %z: tensor<f16>) -> tensor<4xbf16> {
  // expected-error @+1 {{'stablehlo.select_and_scatter' op selects elements of 'f16' and scatters in 'bf16', which does not hold all of them; convert its operands to f32}}
  %0 = "stablehlo.select_and_scatter"(%x, %x, %z) ({
  ^bb0(%l: tensor<f16>, %r: tensor<f16>):
    %c = stablehlo.compare GE, %l, %r : (tensor<f16>, tensor<f16>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%l: tensor<bf16>, %r: tensor<bf16>):
    stablehlo.return %r : tensor<bf16>
  }) : (tensor<4xf16>, tensor<4xf16>, tensor<f16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'arith.negf' op is not a stablehlo op}}
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has the type 'tensor<?xf32>'; shapes must be static, so trace the function with concrete shapes}}
func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stablehlo.negate' op has no 'scalify.phase'; run --scalify-annotate-phases first}}
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op argument 0 has no 'scalify.role'; run --scalify-annotate-roles first}}
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op argument 0 has no name or a donation that is not paired; run --scalify-normalize-donation first}}
func.func public @main(%x: tensor<4xf32> {scalify.role = #scalify.role<param>, scalify.name = "x", jax.buffer_donor = true}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op argument 0 is donated to result 0, which is not of its type}}
func.func public @main(%x: tensor<4xf32> {scalify.role = #scalify.role<param>, scalify.name = "x", tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
  %0 = stablehlo.constant {scalify.phase = #scalify.phase<forward>} dense<0.0> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func public @main() -> tensor<f32> {
  // expected-error @+1 {{'chlo.constant' op has no expansion in stablehlo for 'tensor<f32>'}}
  %0 = "chlo.constant"() <{value = dense<1.0> : tensor<f32>}> : () -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error @+1 {{has the type 'tensor<4294967296x4294967296xf32>', which has more bytes than 63 bits can count}}
func.func public @main(%x: tensor<4294967296x4294967296xf32> {scalify.role = #scalify.role<param>, scalify.name = "x"}) -> tensor<f32> {
  %0 = stablehlo.constant {scalify.phase = #scalify.phase<forward>} dense<0.0> : tensor<f32>
  return %0 : tensor<f32>
}
