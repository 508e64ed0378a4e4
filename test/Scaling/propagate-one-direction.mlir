// RUN: scalify-opt %s --scalify-propagate="remarks=0" | FileCheck %s

// The gradient of one number for each row starts as the last weight in all of
// them, and weights turn towards what rows share: with w of 2^-2 the rows are
// 2^-2, and over 256 terms with v of 2^-4 the product is 2^-6 times
// 256^(5/8) = 2^5. Rows of random directions grow by 2^4 to 2^-2. A gradient of
// the backward is none of the values that weights see.
// CHECK-LABEL: func.func @slope
func.func @slope(%w: tensor<256x1xf32> {scalify.scale = -2 : i32, scalify.role = #scalify.role<param>},
                 %v: tensor<256x256xf32> {scalify.scale = -4 : i32, scalify.role = #scalify.role<param>},
                 %x: tensor<8x256xf32> {scalify.scale = -2 : i32}) -> (tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<8x1xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 1)", scalify.scale = -2 : i32
  %g = stablehlo.dot_general %one, %w, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<8x1xf32>, tensor<256x1xf32>) -> tensor<8x256xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot of rows of one direction: K^(5/8), K = 256", scalify.scale = -1 : i32
  %h = stablehlo.dot_general %g, %v, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 256)", scalify.scale = -2 : i32
  %y = stablehlo.dot_general %x, %v, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<forward>} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  // CHECK: stablehlo.dot_general {{.*}}scalify.rule = "dot: sqrt(K = 256)", scalify.scale = -2 : i32
  %b = stablehlo.dot_general %g, %v, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  return %h, %y, %b : tensor<8x256xf32>, tensor<8x256xf32>, tensor<8x256xf32>
}
