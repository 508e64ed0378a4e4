// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @layouts(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{needs layouts of operands and results, or of neither}}
  %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @layout_order(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{that orders no dimensions of}}
  %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<[0, 0]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @alias(%a: tensor<4xf32>) {
  // expected-error @+1 {{aliases operand 3 of 1}}
  %0 = stablehlo.custom_call @f(%a) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 3, operand_tuple_indices = []>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @decomposition(%a: tensor<4xf32>) {
  // expected-error @+1 {{has a decomposition 'missing' that is no function}}
  %0 = stablehlo.composite "my.op" %a {decomposition = @missing} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @tuple_index(%t: tuple<tensor<4xf32>>) {
  // expected-error @+1 {{needs an index below 1 but got 1}}
  %0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return
}

// -----

// One number stands for 2^54 dimensions.
func.func @long_layout(%a: tensor<4x4xf32>) {
  // expected-error @+1 {{has a operand layout dense<0> : tensor<18014398509481984xindex> that orders no dimensions}}
  %0 = stablehlo.custom_call @f(%a) {operand_layouts = [dense<0> : tensor<18014398509481984xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @alias_place(%a: tensor<4xf32>) {
  // expected-error @+1 {{of no output and operand of one type}}
  %0 = stablehlo.custom_call @f(%a) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [5], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @alias_type(%a: tensor<4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{of no output and operand of one type}}
  %0:2 = stablehlo.custom_call @f(%a, %b) {output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 0, operand_tuple_indices = []>]} : (tensor<4xf32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<5xf32>)
  return
}

// -----

func.func @send_pairs(%a: tensor<4xf32>, %t: !stablehlo.token) {
  // expected-error @+1 {{names source 0 twice}}
  %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return
}

// -----

func.func @recv_results(%t: !stablehlo.token) {
  // expected-error @+1 {{needs tensors and then one token as results}}
  %0 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (!stablehlo.token) -> tensor<4xf32>
  return
}

// -----

func.func @infeed_results(%t: !stablehlo.token) {
  // expected-error @+1 {{needs tensors and then one token as results}}
  %0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (!stablehlo.token, tensor<4xf32>)
  return
}
