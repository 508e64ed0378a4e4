// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-expand-measured-scales --scalify-scale-gradients --scalify-validate-precision -split-input-file | FileCheck %s
// RUN: not scalify-opt %s --scalify-decide-formats="remarks=0 strict=1" --scalify-quantize=strict=1 -split-input-file 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize -split-input-file 2>&1 | FileCheck %s --check-prefix=UNROLLED

// The loop carries FP8 data and their scale; each iteration reads the sum, adds
// in F32 and measures the scale of the new one.
// CHECK-LABEL: func.func @main
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[R:.*]]:3 = stablehlo.while({{.*}}, %[[C:.*]] = %{{.*}}, %[[S:.*]] = %{{.*}}) : tensor<i32>, tensor<8x4xf8E4M3FN>, tensor<f32>
// CHECK: %[[SUM:.*]] = scalify.dequantize %[[C]], %[[S]] : tensor<8x4xf8E4M3FN> -> tensor<8x4xf32>
// CHECK: %[[DW:.*]] = stablehlo.dot_general {{.*}} -> tensor<8x4xf32>
// CHECK: %[[NEXT:.*]] = stablehlo.add %[[SUM]], %[[DW]]
// CHECK: %[[T:.*]] = stablehlo.select {{.*}} : tensor<i1>, tensor<f32>
// CHECK: %[[Q:.*]] = scalify.quantize %[[NEXT]], %[[T]] {{.*}} -> tensor<8x4xf8E4M3FN>
// CHECK: stablehlo.return %{{.*}}, %[[Q]], %[[T]] :
// CHECK: %[[G:.*]] = scalify.dequantize %[[R]]#1, %[[R]]#2
// CHECK: stablehlo.subtract %{{.*}}, %[[G]]

// STRICT: error: 'stablehlo.while' op adds up 17 gradients in FP8, which holds 16: give the recipe another gradient_sum
module attributes {scalify.recipe = #scalify.recipe<"fp8-current", head = true, gradient_sum = f8E4M3FN>} {
  func.func @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
                  %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %t: tensor<16x4xf32> {scalify.role = #scalify.role<batch>}) -> tensor<8x4xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<17> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<8x4xf32>
    %r:2 = stablehlo.while(%i = %zero, %c = %start) : tensor<i32>, tensor<8x4xf32> attributes {scalify.phase = #scalify.phase<backward>}
    cond {
      %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
      %ws = scalify.scale_hint %w, %s : tensor<8x4xf32>
      %y = stablehlo.dot_general %xs, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
      %dy = stablehlo.subtract %y, %t {scalify.phase = #scalify.phase<backward>} : tensor<16x4xf32>
      %dys = scalify.scale_hint %dy, %s : tensor<16x4xf32>
      %dw = stablehlo.dot_general %xs, %dys, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      %sum = stablehlo.add %c, %dw {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %sum : tensor<i32>, tensor<8x4xf32>
    }
    %new = stablehlo.subtract %w, %r#1 {scalify.phase = #scalify.phase<optimizer>} : tensor<8x4xf32>
    return %new : tensor<8x4xf32>
  }
}

// -----

// Two micro-batches of a Python loop: one line of the program makes both
// gradients. The sum stays as it is, which is said.
// STRICT: error: 'stablehlo.add' op adds up gradients of micro-batches outside of a loop
// UNROLLED: remark: adds up gradients of micro-batches outside of a loop, and so not in the recipe's gradient_sum: write them as a loop of the program (jax.lax.scan)
// UNROLLED-NOT: remark: adds up
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.add {{.*}} : tensor<8x4xf32>
module attributes {scalify.recipe = #scalify.recipe<"fp8-current", head = true, gradient_sum = bf16>} {
  func.func @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
                  %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %t: tensor<16x4xf32> {scalify.role = #scalify.role<batch>}) -> tensor<8x4xf32> {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %ws = scalify.scale_hint %w, %s : tensor<8x4xf32>
    %x0 = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %minus = stablehlo.negate %x : tensor<16x8xf32>
    %x1 = scalify.scale_hint %minus, %s : tensor<16x8xf32>
    %y0 = stablehlo.dot_general %x0, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %y1 = stablehlo.dot_general %x1, %ws, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %e0 = stablehlo.subtract %y0, %t {scalify.phase = #scalify.phase<backward>} : tensor<16x4xf32>
    %e1 = stablehlo.subtract %y1, %t {scalify.phase = #scalify.phase<backward>} : tensor<16x4xf32>
    %dy0 = scalify.scale_hint %e0, %s : tensor<16x4xf32>
    %dy1 = scalify.scale_hint %e1, %s : tensor<16x4xf32>
    %0 = stablehlo.dot_general %x0, %dy0, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("step.py":7:9)
    %1 = stablehlo.dot_general %x1, %dy1, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("step.py":7:9)
    %2 = stablehlo.dot_general %x1, %dy0, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("step.py":9:9)
    %sum = stablehlo.add %0, %1 {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32>
    // As of two losses, and of a weight that a forward reads twice.
    %both = stablehlo.add %sum, %2 {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32>
    %own = stablehlo.add %0, %1 {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32> loc("jit(step)/transpose(jvp())/add_any")
    %all = stablehlo.add %both, %own {scalify.phase = #scalify.phase<backward>} : tensor<8x4xf32> loc("jit(step)/transpose(jvp())/add_any")
    %new = stablehlo.subtract %w, %all {scalify.phase = #scalify.phase<optimizer>} : tensor<8x4xf32>
    return %new : tensor<8x4xf32>
  }
}
