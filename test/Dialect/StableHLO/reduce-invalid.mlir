// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @dimension(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{needs dimensions within the rank 2 but got 2}}
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [2] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @result(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<4xf32>' but got 'tensor<6xf32>'}}
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----

func.func @init(%a: tensor<4x6xf32>) {
  // expected-error @+1 {{needs scalar init values}}
  %0 = stablehlo.reduce(%a init: %a) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @not_commutative(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{'stablehlo.subtract' is no commutative op of stablehlo}}
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.subtract across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @unknown_inner(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{'stablehlo.plus' is no commutative op of stablehlo}}
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.plus across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @region(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{needs a reduction region with arguments}}
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @window(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{needs positive window dimensions but got 0}}
  %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2, 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @window_result(%a: tensor<4x6xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<3x5xf32>'}}
  %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @sort_dimension(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs a dimension from -1 to 0 but got 1}}
  %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @sort_comparator(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs a comparator that returns}}
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
  // expected-note @+1 {{returned here}}
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Three dilations of 2^64 / 3 would be 5 elements in 64 bits.
func.func @window_wraps(%a: tensor<4xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{tensor<9223372036854775807xf32>}}
  %0 = "stablehlo.reduce_window"(%a, %b) <{base_dilations = array<i64: 6148914691236517207>, window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>
  return
}

// -----

// The number of a dynamic size is no stride.
func.func @dynamic_stride(%a: tensor<4xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{needs positive window strides but got -9223372036854775808}}
  %0 = "stablehlo.reduce_window"(%a, %b) <{window_strides = array<i64: -9223372036854775808>, window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<1xf32>
  return
}

// -----

func.func @reduce_elements(%a: tensor<4x6xf32>, %z: tensor<i32>) {
  // expected-error @+1 {{cannot reduce 'tensor<i32>' in elements of 'f32'}}
  %0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @window_elements(%a: tensor<8xf64>, %z: tensor<f32>) {
  // expected-error @+1 {{cannot reduce 'tensor<8xf64>' in elements of 'f32'}}
  %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8xf64>, tensor<f32>) -> tensor<7xf32>
  return
}

// -----

func.func @scatter_narrows(%a: tensor<4xf32>, %s: tensor<4xf32>, %z: tensor<f32>) {
  // expected-error @+1 {{cannot reduce 'tensor<4xf32>' in elements of 'bf16'}}
  %0 = "stablehlo.select_and_scatter"(%a, %s, %z) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<bf16>, %y: tensor<bf16>):
    %1 = stablehlo.add %x, %y : tensor<bf16>
    stablehlo.return %1 : tensor<bf16>
  }) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xbf16>
  return
}

// -----

func.func @scatter_elements(%a: tensor<4xf32>, %s: tensor<4xbf16>, %z: tensor<f32>) {
  // expected-error @+1 {{needs a source and a scalar init value of the operand's elements}}
  %0 = "stablehlo.select_and_scatter"(%a, %s, %z) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>, tensor<4xbf16>, tensor<f32>) -> tensor<4xf32>
  return
}
