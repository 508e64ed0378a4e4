// What a body reads unchanged is cast before the loop; a stack that more than
// one slice is taken of, or one slice again and again, is cast as a whole.
//
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" --scalify-decide-formats="recipe=fp8 strict=1 remarks=0" --scalify-quantize=strict=1 -split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-scaling="strict=1 remarks=0" --scalify-decide-formats="recipe=fp8 strict=1 remarks=0" -split-input-file | FileCheck %s --check-prefix=DECIDED

// CHECK-LABEL: func.func @carried
// CHECK-SAME:    %{{.*}}: tensor<8x8xf32> {{.*}}, %[[W:.*]]: tensor<8x8xf32>
// CHECK:         %[[Q:.*]] = scalify.quantize %[[W]]
// CHECK:         stablehlo.while
// CHECK:         do
// CHECK:           %[[D:.*]] = scalify.dequantize %[[Q]]
// CHECK:           stablehlo.dot_general %{{.*}}, %[[D]]
func.func @carried(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<8x8xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %c = %x, %v = %w) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %y = stablehlo.dot_general %c, %v, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %v : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// -----

// DECIDED-LABEL: func.func @stack
// DECIDED-COUNT-2: stablehlo.dynamic_slice {{.*}}scalify.whole_stack
// DECIDED-NOT: scalify.whole_stack
// CHECK-LABEL: func.func @stack
// CHECK-SAME:    %{{.*}}: tensor<8x8xf32> {{.*}}, %[[W:.*]]: tensor<4x8x8xf32>
// CHECK:         %[[Q:.*]] = scalify.quantize %[[W]]
// CHECK:         stablehlo.while
// CHECK:           stablehlo.dynamic_slice %[[Q]], %{{.*}} -> tensor<1x8x8xf8E4M3FN>
// CHECK:         stablehlo.while
// CHECK:           stablehlo.dynamic_slice %[[Q]], %{{.*}} -> tensor<1x8x8xf8E4M3FN>
func.func @stack(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<4x8x8xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %c = %x, %v = %w) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %v, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %u = stablehlo.reshape %s : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %c, %u, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %v : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
  }
  %q:3 = stablehlo.while(%i = %zero, %c = %r#1, %v = %w) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %v, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %u = stablehlo.reshape %s : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %c, %u, contracting_dims = [1] x [1] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %v : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
  }
  return %q#1 : tensor<8x8xf32>
}

// -----

// One slice of each is cast as a slice: the stack would cost a write more.
// CHECK-LABEL: func.func @once
// CHECK:         stablehlo.while
// CHECK:         do
// CHECK:           %[[S:.*]] = stablehlo.dynamic_slice {{.*}} -> tensor<1x8x8xf32>
// CHECK:           scalify.quantize %[[S]]
func.func @once(%x: tensor<8x8xf32> {scalify.scale = 0 : i32}, %w: tensor<4x8x8xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %c = %x, %v = %w) : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
   cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %v, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %u = stablehlo.reshape %s : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %c, %u, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %y : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %v : tensor<i32>, tensor<8x8xf32>, tensor<4x8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
