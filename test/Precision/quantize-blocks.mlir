// RUN: scalify-opt %s --scalify-decide-formats=remarks=0 --scalify-quantize --scalify-validate-precision -split-input-file | FileCheck %s

// The input is cast along K for the forward dot and along the batch for the
// weight gradient; the weight once for both of its dots.
// CHECK-LABEL: func.func @linear
// CHECK-DAG: %[[QX:.*]] = scalify.quantize %arg0, %{{.*}} by tensor<256x2xf32> {block = array<i64: 1, 128>, cast = "{{.*}}x"{{.*}} -> tensor<256x200xf8E4M3FN>
// CHECK-DAG: scalify.quantize %arg0, %{{.*}} by tensor<2x200xf32> {block = array<i64: 128, 1>
// CHECK-DAG: %[[QW:.*]] = scalify.quantize %arg1, %{{.*}} by tensor<2x1xf32> {block = array<i64: 128, 128>
// CHECK-NOT: scalify.quantize %arg1
// CHECK-DAG: scalify.quantize %[[G:.*]], %{{.*}} by tensor<2x64xf32> {block = array<i64: 128, 1>{{.*}} -> tensor<256x64xf8E4M3FN>
// CHECK-DAG: scalify.quantize %[[G]], %{{.*}} by tensor<256x1xf32> {block = array<i64: 1, 128>
// CHECK-NOT: scalify.quantize %arg1
// CHECK: return
module attributes {scalify.recipe = #scalify.recipe<"fp8-block", head = true>} {
  func.func @linear(%x: tensor<256x200xf32> {scalify.role = #scalify.role<batch>, scalify.name = "x"}, %w: tensor<200x64xf32> {scalify.role = #scalify.role<param>}, %g: tensor<256x64xf32>)
      -> (tensor<256x64xf32>, tensor<200x64xf32>, tensor<256x200xf32>) {
    %s = stablehlo.constant dense<0.5> : tensor<f32>
    %dy = stablehlo.negate %g {scalify.phase = #scalify.phase<backward>} : tensor<256x64xf32>
    %a = scalify.scale_hint %x, %s : tensor<256x200xf32>
    %b = scalify.scale_hint %w, %s : tensor<200x64xf32>
    %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {scalify.phase = #scalify.phase<forward>} : (tensor<256x200xf32>, tensor<200x64xf32>) -> tensor<256x64xf32>
    %c = scalify.scale_hint %x, %s : tensor<256x200xf32>
    %d = scalify.scale_hint %dy, %s : tensor<256x64xf32>
    %dw = stablehlo.dot_general %c, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<256x200xf32>, tensor<256x64xf32>) -> tensor<200x64xf32>
    %e = scalify.scale_hint %dy, %s : tensor<256x64xf32>
    %f = scalify.scale_hint %w, %s : tensor<200x64xf32>
    %dx = stablehlo.dot_general %e, %f, contracting_dims = [1] x [1] {scalify.phase = #scalify.phase<backward>} : (tensor<256x64xf32>, tensor<200x64xf32>) -> tensor<256x200xf32>
    return %y, %dw, %dx : tensor<256x64xf32>, tensor<200x64xf32>, tensor<256x200xf32>
  }
}
