// RUN: scalify-opt %s --scalify-flatten-tuples --scalify-refine-shapes=arg-shapes=0=4x8 --split-input-file --verify-diagnostics

func.func @main(%x: tensor<?x8xf32>, %ok: tensor<i1>) {
  // expected-error @below {{asserts what is not known of the shapes}}
  stablehlo.custom_call @shape_assertion(%ok) {has_side_effect = true} : (tensor<i1>) -> ()
  return
}

// -----

func.func @main(%x: tensor<?x8xf32>) -> tensor<i1> {
  %c = stablehlo.constant dense<true> : tensor<i1>
  // expected-error @below {{of 'shape_assertion' has results}}
  %0 = stablehlo.custom_call @shape_assertion(%c) {has_side_effect = true} : (tensor<i1>) -> tensor<i1>
  return %0 : tensor<i1>
}

// -----

func.func @main(%x: tensor<?x8xf32>) {
  %c = stablehlo.constant dense<2.0> : tensor<f32>
  // expected-error @below {{asserts what is not known of the shapes}}
  stablehlo.custom_call @shape_assertion(%c) {has_side_effect = true} : (tensor<f32>) -> ()
  return
}

// -----

func.func @main(%x: tensor<?x8xf32>) {
  %c = stablehlo.constant dense<false> : tensor<i1>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  // expected-error @below {{does not hold: 4 rows are not 5}}
  stablehlo.custom_call @shape_assertion(%c, %n) {error_message = "{0} rows are not 5", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
  return
}

// -----

// A second carry of another shape.
func.func @main(%x: tensor<?x8xf32>, %p: tensor<i1>) -> tensor<?x8xf32> {
  // expected-error @below {{changes the type of carry 0 from 'tensor<4x8xf32>' to 'tensor<8x8xf32>'}}
  %0 = stablehlo.while(%i = %x) : tensor<?x8xf32>
  cond {
    stablehlo.return %p : tensor<i1>
  } do {
    %y = stablehlo.concatenate %i, %i, dim = 0 : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
    stablehlo.return %y : tensor<?x8xf32>
  }
  return %0 : tensor<?x8xf32>
}

// -----

func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %s = stablehlo.constant dense<0> : tensor<2xi32>
  %l = stablehlo.constant dense<[5, 8]> : tensor<2xi32>
  %t = stablehlo.constant dense<1> : tensor<2xi32>
  // expected-error @below {{'stablehlo.slice' op}}
  %0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// Sizes of windows, none for the second dimension.
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<?x8xf32>, %z: tensor<f32>) -> tensor<?x8xf32> {
  %1 = stablehlo.constant dense<1> : tensor<1xi32>
  %p = stablehlo.constant dense<0> : tensor<1x2xi32>
  // expected-error @below {{'stablehlo.reduce_window' op}}
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %1, %1, %1, %1, %p) {called_computations = [@add]} : (tensor<?x8xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

!a = tuple<tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>>
!b = tuple<!a, !a, !a, !a, !a, !a, !a, !a>
!c = tuple<!b, !b, !b, !b, !b, !b, !b, !b>
!d = tuple<!c, !c, !c, !c, !c, !c, !c, !c>
!e = tuple<!d, !d, !d, !d, !d, !d, !d, !d>
!f = tuple<!e, !e, !e, !e, !e, !e, !e, !e>
// expected-error @below {{has a tuple of more than 65536 elements}}
func.func @main(%x: tensor<4x8xf32>, %t: !f) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

func.func @main(%x: tensor<?x8xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<-5> : tensor<1xi64>
  // expected-error @below {{has a value whose shape has the size -5}}
  %0 = stablehlo.dynamic_iota %c, dim = 0 : (tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @main(%x: tensor<?x8xf32>) -> tensor<?x?xf32> {
  %c = stablehlo.constant dense<4294967296> : tensor<2xi64>
  // expected-error @below {{has a value of type 'tensor<4294967296x4294967296xf32>', which has more bytes than 63 bits can count}}
  %0 = stablehlo.dynamic_iota %c, dim = 0 : (tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// -----

// One number stands for 2^40 sizes.
func.func @main(%x: tensor<?x8xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<2> : tensor<1099511627776xi64>
  // expected-error @below {{whose shape does not follow from those of the arguments}}
  %0 = stablehlo.custom_call @f(%c) {indices_of_shape_operands = dense<0> : tensor<1xi64>} : (tensor<1099511627776xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @main(%x: tensor<?x8xf32>) -> tensor<?xf32> {
  // expected-error @below {{has no operand 18446744073709551615 of a shape}}
  %0 = stablehlo.custom_call @f(%x) {indices_of_shape_operands = dense<-1> : tensor<1xi128>} : (tensor<?x8xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
