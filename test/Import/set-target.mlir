// RUN: scalify-opt %s --scalify-set-target | FileCheck %s --check-prefix=GPU
// RUN: scalify-opt %s --scalify-set-target=chip=cpu | FileCheck %s --check-prefix=CPU
// RUN: not scalify-opt %s --scalify-set-target=chip=sm_80 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A module for a CPU says nothing.
// GPU: module attributes {scalify.target = #scalify.target<"sm_90a">}
// CPU: module {
// UNKNOWN: error: unknown target 'sm_80': expected one of cpu, sm_90a
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
