// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @contracting_sizes(%a: tensor<3x4xf32>, %b: tensor<5x6xf32>) {
  // expected-error @+1 {{needs equal sizes in contracting dimensions but got 4 in dimension 1}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @contracting_counts(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{needs as many lhs as rhs contracting dimensions but got 1 and 0}}
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [] : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @dimension_range(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{needs lhs dimension within the rank 2 but got 2}}
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [2] x [1] : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @dimension_twice(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{names lhs dimension 0 twice}}
  %0 = stablehlo.dot_general %a, %a, batching_dims = [0] x [0], contracting_dims = [0] x [1] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @result_shape(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<3x5xf32>' but got 'tensor<5x3xf32>'}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @precision_name(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{expected DEFAULT, HIGH or HIGHEST but got 'LOW'}}
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0], precision = [LOW, LOW] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @precision_count(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{needs one precision per operand but got 1}}
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0], precision = [HIGH] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @unknown_field(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{duplicate or unknown struct parameter name: lhs_dims}}
  %0 = "stablehlo.dot_general"(%a, %a) <{dot_dimension_numbers = #stablehlo.dot<lhs_dims = [1]>}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @conv_letters(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x8xf32>) {
  // expected-error @+1 {{expected 'b', 'f' or a number but got 'g'}}
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, g]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x6x6x8xf32>
  return
}

// -----

func.func @conv_result(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x8xf32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<2x6x6x8xf32>'}}
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x8x8x8xf32>
  return
}

// -----

func.func @conv_features(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x2x8xf32>) {
  // expected-error @+1 {{needs 4 input features in the kernel but got 2}}
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x8x8x4xf32>, tensor<3x3x2x8xf32>) -> tensor<2x6x6x8xf32>
  return
}

// -----

func.func @dot_precisions(%a: tensor<3x3xf32>) {
  // expected-error @+1 {{needs one precision per operand but got 1}}
  %0 = stablehlo.dot %a, %a, precision = [HIGH] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @conv_reversal(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x8xf32>) {
  // expected-error @+1 {{needs 2 entries of window reversal but got 1}}
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, window_reversal = array<i1: true>}> : (tensor<2x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x6x6x8xf32>
  return
}

// -----

func.func @conv_precisions(%x: tensor<2x8x8x4xf32>, %w: tensor<3x3x4x8xf32>) {
  // expected-error @+1 {{needs one precision per operand but got 3}}
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> : (tensor<2x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x6x6x8xf32>
  return
}

// -----

func.func @dynamic_conv_dims(%x: tensor<1x4x4x1xf32>, %w: tensor<2x2x1x1xf32>, %p: tensor<2x2xi64>) {
  // expected-error @+1 {{needs output dimensions within the rank 4 but got 4}}
  %0 = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, ?, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi64>) -> tensor<1x?x?x1xf32>
  return
}

// -----

func.func @dynamic_conv_padding(%x: tensor<1x4x4x1xf32>, %w: tensor<2x2x1x1xf32>, %p: tensor<4xi64>) {
  // expected-error @+1 {{needs padding of shape 2x2 but got 'tensor<4xi64>'}}
  %0 = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x4x1xf32>, tensor<2x2x1x1xf32>, tensor<4xi64>) -> tensor<1x?x?x1xf32>
  return
}

// -----

func.func @dynamic_conv_groups(%x: tensor<1x4x4x3xf32>, %w: tensor<2x2x1x4xf32>, %p: tensor<2x2xi64>) {
  // expected-error @+1 {{needs group counts that divide the sizes of batch and features}}
  %0 = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64}> : (tensor<1x4x4x3xf32>, tensor<2x2x1x4xf32>, tensor<2x2xi64>) -> tensor<1x?x?x4xf32>
  return
}

// -----

func.func @einsum_terms(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{needs an equation of 2 terms, as 'ij,jk->ik' has two, but got 'ij->ij'}}
  %0 = stablehlo.einsum %a, %b, config = "ij->ij" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @einsum_result(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{needs each label of the result once, and in an operand, but got 'ij,jk->iz'}}
  %0 = stablehlo.einsum %a, %b, config = "ij,jk->iz" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @einsum_twice(%a: tensor<3xf32>) {
  // expected-error @+1 {{needs each label of the result once, and in an operand, but got 'i->ii'}}
  %0 = stablehlo.unary_einsum %a, config = "i->ii" : (tensor<3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @einsum_rank(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{has 3 labels 'jkl' for the dimensions of 'tensor<4x5xf32>'}}
  %0 = stablehlo.einsum %a, %b, config = "ij,jkl->ik" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @einsum_sizes(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{has sizes 3 and 5 of label 'i'}}
  %0 = stablehlo.einsum %a, %b, config = "ij,ji->i" : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @unary_einsum_label(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{needs letters as labels but got '0'}}
  %0 = stablehlo.unary_einsum %a, config = "i0->i" : (tensor<3x4xf32>) -> tensor<3xf32>
  return
}
