// RUN: scalify-opt %s --scalify-set-target --scalify-outline-loops='max-ops=1' \
// RUN:   --verify-diagnostics | FileCheck %s

module {
// On a GPU the host waits for the condition of a loop of unknown length.
// CHECK-LABEL: func.func @until
func.func @until(%a: tensor<f32>, %n: tensor<f32>) -> tensor<f32> {
  // CHECK: plan.iterate @loop0 {{.*}} while 1
  // expected-remark @+1 {{before each iteration the host waits for the GPU and reads the condition}}
  %r = stablehlo.while(%x = %a) : tensor<f32>
    cond {
      %p = stablehlo.compare LT, %x, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = stablehlo.add %x, %x : tensor<f32>
      stablehlo.return %y : tensor<f32>
    }
  return %r : tensor<f32>
}

// With collectives, a loop of four iterations of two ops stays, to be unrolled; one of twenty is
// outlined: the limit is 16 times that of other loops.
// CHECK-LABEL: func.func @sums
func.func @sums(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %c20 = stablehlo.constant dense<20> : tensor<i32>
  // CHECK: stablehlo.while
  %r:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = plan.communicate all_reduce sum %x groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<8xf32>) -> tensor<8xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<8xf32>
    }
  // CHECK: plan.iterate @{{.*}} trips 20
  %s:2 = stablehlo.while(%i = %c0, %x = %a) : tensor<i32>, tensor<8xf32>
    cond {
      %p = stablehlo.compare LT, %i, %c20 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %y = plan.communicate all_reduce sum %x groups dense<[[0, 1]]> : tensor<1x2xi64> : (tensor<8xf32>) -> tensor<8xf32>
      %j = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<8xf32>
    }
  return %r#1, %s#1 : tensor<8xf32>, tensor<8xf32>
}
}
