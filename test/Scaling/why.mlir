// The chain of rules behind one scale, by the names of the text.
//
// RUN: scalify-opt %s --scalify-why=%y | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=TREE
// RUN: scalify-opt %s --scalify-why=%y --scalify-why-depth=1 | FileCheck %s --check-prefix=CUT
// RUN: scalify-opt %s --scalify-why=c2 --scalify-why="params['w']" | FileCheck %s --check-prefix=CAST
// RUN: scalify-opt %s --scalify-why=%y --scalify-why-format=json | %python -c "import json, sys; why = json.load(sys.stdin); print(why['schema'], *[line['op'] for line in why['lines']])" | FileCheck %s --check-prefix=JSON
// RUN: scalify-opt %s --scalify-import --scalify-propagate --scalify-why=%y | FileCheck %s --check-prefix=BARE
// RUN: scalify-opt %s --scalify-import --scalify-scaling="explain=true" --scalify-why=%y --scalify-why-depth=1 | FileCheck %s --check-prefix=CUT
// RUN: scalify-compile %s -o /dev/null --target=stablehlo --scalify-why=%y --scalify-why-depth=1 2>/dev/null | FileCheck %s --check-prefix=CUT
// RUN: not scalify-opt %s --scalify-why=%yy 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not scalify-opt %s --scalify-why=why.mlir 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not scalify-opt %s --scalify-report=xml 2>&1 | FileCheck %s --check-prefix=FORMAT

//       TREE:%y = dot_general, 2^-1, dot: sqrt(K = 32) [mean 0, rms 0.{{[0-9]+}}] at {{.*}}why.mlir:[[#]]:8
//  TREE-NEXT:  %s = multiply, 2^-3, product [mean 0.0{{[0-9]+}}, rms 0.{{[0-9]+}}, bound 1] at {{.*}}
//  TREE-NEXT:    %t = tanh, 2^-2, tanh: bounded by 1 [mean 0, rms 0.2{{[0-9]+}}, bound 1] at {{.*}}
//  TREE-NEXT:      %h = dot_general, 2^-2, dot: sqrt(K = 64) [mean 0, rms 0.25] at {{.*}}
//  TREE-NEXT:        x = argument, 2^0, declared scale of the argument [mean 0, rms 1] at x
//  TREE-NEXT:        params['w'] = argument, 2^-5, declared scale of the argument [mean 0, rms 0.0312] at params['w']
//  TREE-NEXT:  arg2 = argument, 2^0, declared scale of the argument [mean 0, rms 1] at {{.*}}

//       CUT: %y = dot_general, 2^-1
//  CUT-NEXT:   %s = multiply, 2^-3, product {{.*}} (1 more below)
//  CUT-NEXT:   arg2 = argument
//   CUT-NOT: {{= (tanh|dot)}}

//       CAST: c2: multiply = quantize, 2^-3, product
//  CAST-NEXT:   %s = multiply, 2^-3, product
//       CAST: params['w'] = argument, 2^-5, declared

//      JSON: scalify.why/1 dot_general multiply tanh dot_general argument argument argument

// Without facts: rules and operands.
//       BARE: %y = dot_general, 2^-1, dot: sqrt(K = 32) at
//  BARE-NEXT:   %s = multiply, 2^-3, product at

// NEAR: error: no value is called '%yy'; near it: {{.*}}'%y'
// MANY: error: 7 values match 'why.mlir': #4 arg2 (argument at {{.*}}), {{.*}}, and 1 more
// FORMAT: error: unknown format 'xml' in --scalify-report: expected json or text

module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {
  func.func public @main(%x: tensor<16x64xf32> {scalify.scale = 0 : i32} loc("x"), %w: tensor<64x32xf32> {scalify.scale = -5 : i32} loc("params['w']"), %v: tensor<32x8xf32> {scalify.scale = 0 : i32}) -> tensor<16x8xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %t = stablehlo.tanh %h : tensor<16x32xf32>
  %s = stablehlo.multiply %t, %t : tensor<16x32xf32>
  %y = stablehlo.dot_general %s, %v, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
  }
}
