// RUN: scalify-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{part 'scales' of a recipe is 'sometimes': expected none, propagated, current, unit, block or delayed}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", scales = sometimes>} {}

// -----

// expected-error @+1 {{unknown part 'colour' of a recipe: expected one of scales, forward, gradient, linear, }}
module attributes {scalify.recipe = #scalify.recipe<"fp8", colour = true>} {}

// -----

// expected-error @+1 {{part 'head' of a recipe is 'i8': expected true, false, wide, a format (f8E4M3FN, f8E5M2, f16, bf16, f32) or [forward, gradient] of two formats}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = i8>} {}

// -----

// expected-error @+1 {{part 'attention_qk' of a recipe has the formats 'f8E4M3FN' and 'bf16', which cannot meet in one dot: give two of FP8, or one 16-bit format for both}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", attention_qk = [f8E4M3FN, bf16]>} {}

// -----

// expected-error @+1 {{part 'forward, gradient' of a recipe has the formats 'f16' and 'f8E5M2', which cannot meet}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", forward = f16>} {}

// -----

// expected-error @+1 {{part 'where' of a recipe has the pattern 'layer[', which is no regular expression}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"layer[" = wide}>} {}

// -----

// expected-error @+1 {{part 'where "x"' of a recipe has the formats 'f16' and 'bf16', which cannot meet}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"x" = [f16, bf16]}>} {}

// -----

// expected-error @+1 {{part 'moments' of a recipe is 'i32': expected given or a format (f8E4M3FN, f8E5M2, f16 or bf16)}}
module attributes {scalify.recipe = #scalify.recipe<"fp16", moments = i32>} {}

// -----

// expected-error @+1 {{part 'head' of a recipe is '3': expected true, false, wide, a format}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = 3>} {}

// -----

// expected-error @+1 {{part 'rescale' of a recipe has the place "grad:layer[", which is neither residual, residual_grad nor a regular expression}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", rescale = ["residual", "grad:layer["]>} {}

// -----

// expected-error @+1 {{a recipe has the block size '-4': expected 1 or more, or 0 for the whole dimension}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", block = [1, -4]>} {}

// -----

// expected-error @+1 {{part 'history' of a recipe is 0: expected 1 to 65536 steps}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history = 0>} {}

// -----

// expected-error @+1 {{part 'margin' of a recipe is 1 under scales = unit, which measure no amax to leave it above: expected 0, or scales = current, block or delayed}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-plain", margin = 1>} {}

// -----

// expected-error @+1 {{part 'margin' of a recipe is 65: expected -64 to 64 binades}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", margin = 65>} {}

// -----

// expected-error @+1 {{part 'history_use' of a recipe is 'mean': expected max or most_recent}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history_use = mean>} {}

// -----

// expected-error @+1 {{part 'where' of a recipe is '{"x" = [f16], "y" = wide}': expected {"regular expression" = formats, ...}, formats being true, false}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"x" = [f16], "y" = wide}, head = true>} {}

// -----

// expected-error @+1 {{part 'history' of a recipe is '[1, 2]': expected an integer}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-delayed", history = [1, 2]>} {}

// -----

// expected-error @+1 {{part 'block' of a recipe is '128': expected [free, contracting], two integers, 0 for the whole dimension}}
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", block = 128>} {}

// -----

// expected-error @+1 {{part 'masters' of a recipe has the format 'f32': expected f8E4M3FN, f8E5M2, f16, bf16 or given}}
module attributes {scalify.recipe = #scalify.recipe<"fp16", masters = f32>} {}

// -----

// expected-error @+1 {{part 'state_rounding' of a recipe is 'up': expected nearest or stochastic}}
module attributes {scalify.recipe = #scalify.recipe<"fp16", state_rounding = up>} {}

// -----

// expected-error @+1 {{part 'head' of a recipe is given twice: leave out one of the two}}
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, head = false>} {}
