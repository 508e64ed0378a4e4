// RUN: split-file %s %t
// RUN: scalify-opt %t/names.mlir --scalify-decide-formats --scalify-quantize -o /dev/null 2>&1 | FileCheck %t/names.mlir
// RUN: not scalify-opt %t/names.mlir --scalify-decide-formats=strict --scalify-quantize=strict -o /dev/null 2>&1 | FileCheck %t/names.mlir --check-prefix=STRICT
// RUN: scalify-opt %t/forward.mlir --scalify-decide-formats --scalify-quantize -o /dev/null 2>&1 | FileCheck %t/forward.mlir
// RUN: scalify-opt %t/nameless.mlir --scalify-decide-formats --scalify-quantize -o /dev/null 2>&1 | FileCheck %t/nameless.mlir
// RUN: scalify-opt %t/places.mlir --scalify-decide-formats="strict remarks=0" --scalify-quantize=strict --scalify-validate-precision | FileCheck %t/places.mlir

//--- names.mlir
// What a pattern meets in any function is met. One for a kind of dot that the
// program has, but not by that name, is not. One that another one precedes at
// all of its dots is.
// CHECK-NOT: has the pattern
// CHECK: warning: part 'where' of the recipe has the pattern 'params\['c', which matches no dot: dots of this program are known by weights params['a'], params['b'] and by places jit(step)/layer0/dot_general
// CHECK: warning: part 'where' of the recipe has the pattern 'input_grad:'a'', which matches dots, but none of this kind: they are forward_dot, weight_grad (leave the kind out, or the exception)
// CHECK-NOT: has the pattern
// STRICT-NOT: has the pattern
// STRICT: error: part 'where' of the recipe has the pattern 'params\['c', which matches no dot
// STRICT: error: part 'where' of the recipe has the pattern 'input_grad:'a'', which matches dots, but none of this kind
// STRICT-NOT: has the pattern
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"layer0/" = wide, "params\\['c" = wide, "input_grad:'a'" = bf16, "'b'" = wide, "weight_grad:." = bf16}>} {
  func.func @other(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %b: tensor<8x4xf32> {scalify.name = "params['b']"}) -> tensor<16x4xf32> {
    %0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %0 : tensor<16x4xf32>
  }
  func.func @main(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x4xf32> {scalify.name = "params['a']"}, %g: tensor<16x4xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<16x4xf32>, tensor<8x4xf32>) {
    %y = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32> loc("jit(step)/layer0/dot_general")
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<16x4xf32>
    %da = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    return %y, %da : tensor<16x4xf32>, tensor<8x4xf32>
  }
}

//--- forward.mlir
// A program without a backward has no gradients to except: the recipe is that
// of the training step. A slip is one here, too.
// CHECK-NOT: has the pattern 'weight_grad
// CHECK: the pattern 'input_grad:x', which matches no dot
// CHECK-NOT: has the pattern
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"weight_grad:'a'" = wide, "input_grad:x" = wide}>} {
  func.func @main(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x4xf32> {scalify.name = "params['a']"}) -> tensor<16x4xf32> {
    %y = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    return %y : tensor<16x4xf32>
  }
}

//--- nameless.mlir
// CHECK: the pattern 'layer0', which matches no dot: no dot of this program has a name (give its weight a scalify.name, or the dot a location with a name)
module attributes {scalify.recipe = #scalify.recipe<"fp8", where = {"layer0" = wide}>} {
  func.func @main(%x: tensor<16x8xf32>, %y: tensor<16x8xf32>) -> tensor<16x16xf32> {
    %a = stablehlo.tanh %x : tensor<16x8xf32>
    %b = stablehlo.tanh %y : tensor<16x8xf32>
    %z = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x16xf32>
    return %z : tensor<16x16xf32>
  }
}

//--- places.mlir
// By its location one layer stays wide, its gradient in the backward with it;
// the other has the formats of the recipe.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.dot_general %arg0, %arg1{{.*}}scalify.wide = #scalify.decision<"name", "a linear layer (recipe: where \22layer0/\22 = false)"
// CHECK: %[[H:.*]] = stablehlo.tanh
// CHECK: scalify.quantize %[[H]], {{.*}} -> tensor<16x8xf8E4M3FN>
// CHECK: stablehlo.dot_general
// CHECK-NOT: scalify.wide
// CHECK: %[[DY:.*]] = stablehlo.negate
// CHECK-NOT: scalify.quantize %[[DY]]
// CHECK: stablehlo.dot_general %arg0, %[[DY]]{{.*}}scalify.wide = #scalify.decision<"name", "a linear layer (recipe: where \22layer0/\22 = false)"
module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true, where = {"layer0/" = wide}>} {
  func.func @main(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}, %a: tensor<8x8xf32> {scalify.name = "a"}, %b: tensor<8x8xf32> {scalify.name = "b"}, %g: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}) -> (tensor<16x8xf32>, tensor<8x8xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %xs = scalify.scale_hint %x, %s : tensor<16x8xf32>
    %as = scalify.scale_hint %a, %s : tensor<8x8xf32>
    %y = stablehlo.dot_general %xs, %as, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("jit(step)/jvp(layer0)/layer0/dot_general")
    %h = stablehlo.tanh %y : tensor<16x8xf32>
    %hs = scalify.scale_hint %h, %s : tensor<16x8xf32>
    %bs = scalify.scale_hint %b, %s : tensor<8x8xf32>
    %z = stablehlo.dot_general %hs, %bs, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32> loc("jit(step)/jvp(layer1)/layer1/dot_general")
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<16x8xf32>
    %dys = scalify.scale_hint %dy, %s : tensor<16x8xf32>
    %da = stablehlo.dot_general %xs, %dys, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32> loc("jit(step)/transpose(jvp(layer0))/layer0/dot_general")
    return %z, %da : tensor<16x8xf32>, tensor<8x8xf32>
  }
}
