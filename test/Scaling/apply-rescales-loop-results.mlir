// RUN: scalify-opt %s --scalify-measure-arguments --scalify-propagate --scalify-apply-rescales="remarks=0" | FileCheck %s

// A sum behind a loop goes by the sizes of both terms. The loop is given a carry
// for what the step measures, and its result is still 2^-6 of x: 2^-12 of the
// square of y.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[LARGE:.*]] = stablehlo.constant dense<0.999755918>
// CHECK-DAG: %[[SMALL:.*]] = stablehlo.constant dense<2.44081035E-4>
// CHECK-DAG: %[[Y:.*]] = scalify.measured_scale l2 %arg1
// CHECK: stablehlo.while
// CHECK: %[[LOOP:.*]] = stablehlo.divide %{{.*}}#3, %{{.*}} : tensor<f32>
// CHECK: %[[A:.*]] = stablehlo.multiply %[[LOOP]], %[[LOOP]]
// CHECK-NEXT: %[[AS:.*]] = stablehlo.multiply %[[A]], %[[SMALL]]
// CHECK: %[[B:.*]] = stablehlo.multiply %[[Y]], %[[Y]]
// CHECK-NEXT: %[[BS:.*]] = stablehlo.multiply %[[B]], %[[LARGE]]
// CHECK-NEXT: stablehlo.add %[[AS]], %[[BS]]
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func @main(%x: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %y: tensor<8x8xf32> {scalify.role = #scalify.role<param>}, %w: tensor<8x8xf32> {scalify.role = #scalify.role<param>, scalify.scale = 0 : i32}) -> tensor<8x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %small = stablehlo.constant dense<1.562500e-02> : tensor<8x8xf32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32> attributes {scalify.phase = #scalify.phase<forward>}
    cond {
      %p = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %c = stablehlo.multiply %a, %small : tensor<8x8xf32>
      stablehlo.return %n, %a, %c : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
    }
    %s = stablehlo.add %0#2, %y {scalify.phase = #scalify.phase<forward>} : tensor<8x8xf32>
    %d = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %d : tensor<8x8xf32>
  }
}
