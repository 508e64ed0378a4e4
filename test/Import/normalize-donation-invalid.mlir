// RUN: scalify-opt %s --scalify-normalize-donation -split-input-file -verify-diagnostics

// expected-error @+1 {{'func.func' op argument 0 is donated to result 1, but '@main' has 1 results}}
func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op arguments 0 and 1 are both donated to result 0}}
func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op argument 0 of type 'tensor<4xf32>' is donated to result 0 of type 'tensor<4xbf16>'}}
func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xbf16>) -> tensor<4xbf16> {
  return %b : tensor<4xbf16>
}

// -----

// expected-error @+1 {{the module has no public function '@main'}}
module {
  func.func private @main() {
    return
  }
}
