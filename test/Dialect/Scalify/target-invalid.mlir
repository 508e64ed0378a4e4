// RUN: scalify-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{unknown target 'sm_80': expected one of cpu, sm_90a}}
module attributes {scalify.target = #scalify.target<"sm_80">} {}

// -----

// expected-error @+1 {{'builtin.module' op has 'scalify.target' = "sm_90a" on the module: expected #scalify.target}}
module attributes {scalify.target = "sm_90a"} {}
