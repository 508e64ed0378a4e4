// RUN: scalify-opt %s | FileCheck %s

// Calls, tokens, tuples and input/output.

// CHECK-LABEL: func.func @custom_calls
func.func @custom_calls(%a: tensor<4x4xf32>) {
  // CHECK: stablehlo.custom_call @target(%{{.*}}) {backend_config = "", has_side_effect = true, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = stablehlo.custom_call @target(%a) {backend_config = "", has_side_effect = true, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.custom_call @typed(%{{.*}}) {api_version = 4 : i32, backend_config = {mode = 3 : i64}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.custom_call @typed(%a) {api_version = 4 : i32, backend_config = {mode = 3 : i64}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.custom_call @Sharding(%{{.*}}) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = stablehlo.custom_call @Sharding(%a) {api_version = 1 : i32} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// CHECK-LABEL: func.func @square
func.func @square (%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// CHECK-LABEL: func.func @composites
func.func @composites(%a: tensor<4xf32>) {
  // CHECK: stablehlo.composite "my.op" %{{.*}} {composite_attributes = {k = 3 : i64}, decomposition = @square, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = stablehlo.composite "my.op" %a {composite_attributes = {k = 3 : i64}, decomposition = @square, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: stablehlo.composite "my.op" %{{.*}} {decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.op" %a {decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @tokens
func.func @tokens(%a: tensor<4xf32>) {
  // CHECK: stablehlo.create_token : !stablehlo.token
  %0 = stablehlo.create_token : !stablehlo.token
  // CHECK: stablehlo.after_all %{{.*}}, %{{.*}} : !stablehlo.token
  %1 = stablehlo.after_all %0, %0 : !stablehlo.token
  // CHECK: "stablehlo.send"(%{{.*}}, %{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %2 = "stablehlo.send"(%a, %1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  // CHECK: "stablehlo.recv"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  // CHECK: "stablehlo.infeed"(%{{.*}}) <{infeed_config = "x"}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  %4:2 = "stablehlo.infeed"(%3#1) <{infeed_config = "x"}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  // CHECK: "stablehlo.outfeed"(%{{.*}}, %{{.*}}) <{outfeed_config = "y"}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  %5 = "stablehlo.outfeed"(%a, %4#1) <{outfeed_config = "y"}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return
}

// CHECK-LABEL: func.func @tuples
func.func @tuples(%a: tensor<4xf32>, %i: tensor<i32>) {
  // CHECK: stablehlo.tuple %{{.*}}, %{{.*}} : tuple<tensor<4xf32>, tensor<i32>>
  %0 = stablehlo.tuple %a, %i : tuple<tensor<4xf32>, tensor<i32>>
  // CHECK: stablehlo.get_tuple_element %{{.*}}[1] : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<i32>
  %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<i32>
  return
}
