// RUN: scalify-opt %s | scalify-opt | FileCheck %s

// Only what differs from the preset is printed.
// CHECK: module @preset attributes {scalify.recipe = #scalify.recipe<"fp16">}
module @preset attributes {scalify.recipe = #scalify.recipe<"fp16", head = true, state = f16>} {}
// CHECK: module @overridden attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>}
module @overridden attributes {scalify.recipe = #scalify.recipe<"fp8", scales = propagated, head = true>} {}
// CHECK: module @own attributes {scalify.recipe = #scalify.recipe<"mine", scales = current, forward = f8E5M2>}
module @own attributes {scalify.recipe = #scalify.recipe<"mine", scales = current, forward = f8E5M2>} {}
// CHECK: module @attention attributes {scalify.recipe = #scalify.recipe<"fp8", attention = false>}
module @attention attributes {scalify.recipe = #scalify.recipe<"fp8", attention_qk = wide, attention_pv = wide, attention_ds = wide>} {}
// CHECK: module @roles attributes {scalify.recipe = #scalify.recipe<"fp8", linear = [f8E4M3FN, f32], attention_qk = true, attention_pv = f16, convolution = f8E5M2>}
module @roles attributes {scalify.recipe = #scalify.recipe<"fp8", convolution = [f8E5M2, f8E5M2], linear = [f8E4M3FN, f32], attention_pv = f16, attention_qk = true>} {}
// CHECK: module @router attributes {scalify.recipe = #scalify.recipe<"fp8", router = bf16>}
module @router attributes {scalify.recipe = #scalify.recipe<"fp8", router = [bf16, bf16]>} {}
// CHECK: module @router_wide attributes {scalify.recipe = #scalify.recipe<"fp8">}
module @router_wide attributes {scalify.recipe = #scalify.recipe<"fp8", router = wide>} {}
// CHECK: module @router_of_bf16 attributes {scalify.recipe = #scalify.recipe<"bf16">}
module @router_of_bf16 attributes {scalify.recipe = #scalify.recipe<"bf16", router = false>} {}
// CHECK: module @narrow_router attributes {scalify.recipe = #scalify.recipe<"bf16", router = bf16>}
module @narrow_router attributes {scalify.recipe = #scalify.recipe<"bf16", router = bf16>} {}
// CHECK: module @exceptions attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"layer0/" = false, "params\\['w'\\]" = f8E5M2}>}
module @exceptions attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"layer0/" = wide, "params\\['w'\\]" = [f8E5M2, f8E5M2]}>} {}
// CHECK: module @storage attributes {scalify.recipe = #scalify.recipe<"fp16", masters = given, moments = bf16, saved = given>}
module @storage attributes {scalify.recipe = #scalify.recipe<"fp16", moments = bf16, masters = given, saved = given>} {}
// CHECK: module @moments attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o2", second_moment = given>}
module @moments attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o2", moments = f8E4M3FN, second_moment = given>} {}
// CHECK: module @first attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o1", first_moment = f8E5M2>}
module @first attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o1", first_moment = f8E5M2>} {}
// CHECK: module @both attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o3", moments = bf16>}
module @both attributes {scalify.recipe = #scalify.recipe<"fp8-lm-o3", first_moment = bf16, second_moment = bf16>} {}
// CHECK: module @state attributes {scalify.recipe = #scalify.recipe<"fp8-state", first_moment = bf16>}
module @state attributes {scalify.recipe = #scalify.recipe<"fp8-state", first_moment = bf16>} {}
// CHECK: module @exponent attributes {scalify.recipe = #scalify.recipe<"fp8-plain", gradient_exponent = -8>}
module @exponent attributes {scalify.recipe = #scalify.recipe<"fp8-plain", gradient_exponent = -8>} {}
// CHECK: module @delayed attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history = 1024, history_use = most_recent, margin = -1>}
module @delayed attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", margin = -1, history_use = most_recent, history = 1024, scales = delayed>} {}
// CHECK: module @rescale attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, rescale = ["residual_grad", "grad:layer\\d/ffn"]>}
module @rescale attributes {scalify.recipe = #scalify.recipe<"fp8", rescale = ["residual_grad", "grad:layer\\d/ffn"], head = true>} {}
// CHECK: module @no_rescale attributes {scalify.recipe = #scalify.recipe<"fp8">}
module @no_rescale attributes {scalify.recipe = #scalify.recipe<"fp8", rescale = []>} {}
// CHECK: module @priors attributes {scalify.recipe = #scalify.recipe<"fp8", priors = ["none"]>}
module @priors attributes {scalify.recipe = #scalify.recipe<"fp8", priors = ["none"]>} {}
// CHECK: module @block attributes {scalify.recipe = #scalify.recipe<"fp8-block">}
module @block attributes {scalify.recipe = #scalify.recipe<"fp8-block", block = [1, 128], gradient = f8E4M3FN>} {}
// CHECK: module @rows attributes {scalify.recipe = #scalify.recipe<"fp8", scales = block, block = [1, 0], weight_block = [1, 32]>}
module @rows attributes {scalify.recipe = #scalify.recipe<"fp8", weight_block = [1, 32], block = [1, 0], scales = block>} {}
// CHECK: module @rounding attributes {scalify.recipe = #scalify.recipe<"fp16", state_rounding = nearest>}
module @rounding attributes {scalify.recipe = #scalify.recipe<"fp16", state_rounding = nearest>} {}
// CHECK: module @by_chance attributes {scalify.recipe = #scalify.recipe<"bf16">}
module @by_chance attributes {scalify.recipe = #scalify.recipe<"bf16", state_rounding = stochastic>} {}
