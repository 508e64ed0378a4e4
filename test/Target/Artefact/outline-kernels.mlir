// RUN: scalify-opt %s --scalify-outline-kernels | FileCheck %s

// The plan stays, and names the kernel's function.
// CHECK-NOT: func.func
// CHECK: plan.program @step
// CHECK: plan.kernel "negate" {{.*}}function = @k0
// CHECK: module @kernels {
// CHECK-NEXT: func.func @k0(%{{.*}}: memref<4xf32>, %{{.*}}: memref<4xf32>
plan.program @step {
  %x = plan.argument 0 : memref<4xf32>
  %y = plan.result 0 : memref<4xf32>
  plan.kernel "negate" reads(%x : memref<4xf32>) writes(%y : memref<4xf32>) attributes {function = @k0, grain = 4 : i64, rows = 4 : i64} {
  ^bb0(%a: tensor<4xf32>):
    %0 = stablehlo.negate %a : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}
func.func @k0(%x: memref<4xf32>, %y: memref<4xf32>, %lo: index, %hi: index, %counters: memref<1xi64>) {
  return
}
