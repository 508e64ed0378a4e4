// A device's part of a value is as large as the whole; dots inside of a manual
// computation are cast, and the text that leaves keeps its body isolated.
//
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" | FileCheck %s
// RUN: scalify-opt %s --scalify-propagate="remarks=0 strict=1" --scalify-decide-formats=recipe=fp8 --scalify-quantize --scalify-to-stablehlo | FileCheck %s --check-prefix=OUT

sdy.mesh @mesh = <["data"=2]>

// CHECK-LABEL: func.func @dot
// CHECK:         sdy.manual_computation
// CHECK-SAME:      (%[[X:[a-z0-9]+]]: tensor<4x64xf32>, %[[W:[a-z0-9]+]]: tensor<64x64xf32>) {
// CHECK:           scalify.scale_hint %[[X]], %{{.*}} :
// CHECK:           scalify.scale_hint %[[W]], %{{.*}} :
// CHECK:           stablehlo.dot_general
// CHECK-SAME:        scalify.scale = 2 : i32
// CHECK:           sdy.return

// OUT-LABEL: func.func @dot
// OUT-NOT:     stablehlo
// OUT:         sdy.manual_computation
// OUT:           f8E4M3FN
// OUT:           stablehlo.dot_general
// OUT:           sdy.return
// OUT:         return
func.func @dot(%a: tensor<8x64xf32> {scalify.scale = 2 : i32}, %b: tensor<64x64xf32> {scalify.scale = -3 : i32, scalify.role = #scalify.role<param>}) -> tensor<8x64xf32> {
  %0 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%x: tensor<4x64xf32>, %w: tensor<64x64xf32>) {
    %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    sdy.return %2 : tensor<4x64xf32>
  } : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
