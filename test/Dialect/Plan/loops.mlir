// RUN: scalify-opt %s | scalify-opt | FileCheck %s
// RUN: scalify-opt %s --mlir-print-op-generic | scalify-opt | FileCheck %s

// CHECK-LABEL: plan.program @body
plan.program @body {
  %s = plan.argument 0 : memref<16xf32>
  %p = plan.argument 1 : memref<i1>
  %x = plan.argument 2 : memref<16xf32>
  %n = plan.argument 3 : memref<i1>
  %t = plan.result 0 aliases 0 : memref<16xf32>
  %q = plan.result 1 aliases 1 : memref<i1>
  plan.copy %x to %t : memref<16xf32>, memref<16xf32>
  plan.copy %n to %q : memref<i1>, memref<i1>
}

// CHECK-LABEL: plan.program @step
plan.program @step {
  %s = plan.argument 0 : memref<4x16xf32>
  %x = plan.argument 1 : memref<16xf32>
  %n = plan.argument 2 : memref<i1>
  %a = plan.argument 3 : memref<16xf32>
  %t = plan.temp : memref<4x16xf32>
  %p = plan.temp : memref<i1>
  %m = plan.temp : memref<64xi8>
  plan.copy %s to %t : memref<4x16xf32>, memref<4x16xf32>
  plan.copy %n to %p : memref<i1>, memref<i1>
  // CHECK: plan.loop @body carries(%{{.*}}, %{{.*}} : memref<4x16xf32>, memref<i1>) reads(%{{.*}}, %{{.*}} : memref<16xf32>, memref<i1>) arena(%{{.*}} : memref<64xi8>) trips 4 slices [0, 0, 64, 192]
  plan.loop @body carries(%t, %p : memref<4x16xf32>, memref<i1>) reads(%x, %n : memref<16xf32>, memref<i1>) arena(%m : memref<64xi8>) trips 4 slices [0, 0, 64, 192]
  %u = plan.temp : memref<16xf32>
  %q = plan.temp : memref<i1>
  plan.copy %a to %u : memref<16xf32>, memref<16xf32>
  plan.copy %n to %q : memref<i1>, memref<i1>
  // CHECK: plan.loop @body carries(%{{.*}}) reads(%{{.*}}) while 1
  plan.loop @body carries(%u, %q : memref<16xf32>, memref<i1>) reads(%x, %n : memref<16xf32>, memref<i1>) while 1
}

// CHECK-LABEL: func.func @tensors
func.func @tensors(%s: tensor<4x16xf32>, %p: tensor<i1>, %x: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: plan.iterate @body carries(%arg0, %arg1) reads(%arg2, %arg1) trips 4 slices [0, 0, 64, 192] : (tensor<4x16xf32>, tensor<i1>, tensor<16xf32>, tensor<i1>) -> (tensor<4x16xf32>, tensor<i1>)
  %r:2 = plan.iterate @body carries(%s, %p) reads(%x, %p) trips 4 slices [0, 0, 64, 192]
      : (tensor<4x16xf32>, tensor<i1>, tensor<16xf32>, tensor<i1>) -> (tensor<4x16xf32>, tensor<i1>)
  return %r#0 : tensor<4x16xf32>
}
