// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-count-steps --scalify-validate-precision -split-input-file | FileCheck %s

// A parameter and its first moment take the two words of one block, the second
// moment another block's; of the next parameter all are others.
// CHECK-LABEL: func.func public @main
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<2xui32> {scalify.name = "scalify.step", scalify.role = #scalify.role<state>, tf.aliasing_output = 6 : i32})
// CHECK-SAME: tensor<2xui32> {jax.result_info = "scalify.step"})
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}rounding = #scalify.rounding<stochastic>, {{.*}}stream = 0 : i64
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}stream = 1 : i64
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}stream = 2097152 : i64
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}stream = 2 : i64
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}stream = 3 : i64
// CHECK: scalify.quantize {{.*}} at %[[STEP]] {{.*}}stream = 2097154 : i64
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<[0, 1]> : tensor<2xui32>
// CHECK: %[[NEXT:.*]] = stablehlo.add %[[STEP]], %[[ONE]]
// CHECK: return {{.*}}, %[[NEXT]] :
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  func.func public @main(
      %w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32},
      %x: tensor<4xf32> {tf.aliasing_output = 3 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32},
      %mw: tensor<4xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<moment>},
      %mx: tensor<4xf32> {tf.aliasing_output = 4 : i32, scalify.role = #scalify.role<moment>},
      %vw: tensor<4xf32> {tf.aliasing_output = 2 : i32, scalify.role = #scalify.role<moment>},
      %vx: tensor<4xf32> {tf.aliasing_output = 5 : i32, scalify.role = #scalify.role<moment>},
      %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %w, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %half_mw = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_mw = stablehlo.multiply %mw, %half_mw : tensor<4xf32>
    %1 = stablehlo.add %kept_mw, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %half_vw = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_vw = stablehlo.multiply %vw, %half_vw : tensor<4xf32>
    %2 = stablehlo.add %kept_vw, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %3 = stablehlo.add %x, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %half_mx = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_mx = stablehlo.multiply %mx, %half_mx : tensor<4xf32>
    %4 = stablehlo.add %kept_mx, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %half_vx = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_vx = stablehlo.multiply %vx, %half_vx : tensor<4xf32>
    %5 = stablehlo.add %kept_vx, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// Where no state is narrow, nothing counts.
// CHECK-LABEL: func.func public @main
// CHECK-NOT: scalify.step
module attributes {scalify.recipe = #scalify.recipe<"fp8">} {
  func.func public @main(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32}) -> tensor<4xf32> {
    %0 = stablehlo.add %w, %w {scalify.scale = 0 : i32} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// A share rounds by places in all elements in a row, and by the words that it
// would have in one process: a parameter in shares, or whole, and its moment
// take the two words of one block. Ranks 0 and 1 are of one share.
// CHECK-LABEL: func.func public @main
// CHECK: %[[TABLE:.*]] = stablehlo.constant dense<{{\[\[}}0], [0], [4], [4]]> : tensor<4x1xi32>
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[TABLE]]
// CHECK: %[[FIRST:.*]] = stablehlo.reshape %[[ROW]]
// CHECK: scalify.quantize {{.*}} from %[[FIRST]] {{.*}}stream = 0 : i64
// CHECK: scalify.quantize {{.*}} at %{{[a-z0-9]+}} {cast = {{.*}}stream = 2 : i64{{.*}} : tensor<2x3xf32>
// CHECK: scalify.quantize {{.*}} from %{{.*}}stream = 3 : i64
module attributes {scalify.recipe = #scalify.recipe<"fp16">} {
  sdy.mesh @mesh = <["data"=2, "tensor"=2]>
  func.func public @main(
      %w: tensor<4xf32> {tf.aliasing_output = 0 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32, scalify.flat = {parts = [array<i64>], whole = tensor<8xf32>}, scalify.parts = [array<i64: 2, 2>], scalify.whole_type = tensor<8xf32>},
      %x: tensor<2x3xf32> {tf.aliasing_output = 1 : i32, scalify.role = #scalify.role<param>, scalify.scale = 0 : i32},
      %mx: tensor<4xf32> {tf.aliasing_output = 2 : i32, scalify.role = #scalify.role<moment>, scalify.flat = {parts = [array<i64>, array<i64>], whole = tensor<2x3xf32>}, scalify.parts = [array<i64: 2, 2>], scalify.whole_type = tensor<8xf32>},
      %g: tensor<4xf32>, %h: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %w, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    %1 = stablehlo.add %x, %h {scalify.scale = 0 : i32} : tensor<2x3xf32>
    %half_mx = stablehlo.constant dense<0.5> : tensor<4xf32>
    %kept_mx = stablehlo.multiply %mx, %half_mx : tensor<4xf32>
    %2 = stablehlo.add %kept_mx, %g {scalify.scale = 0 : i32} : tensor<4xf32>
    return %0, %1, %2 : tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>
  }
}
