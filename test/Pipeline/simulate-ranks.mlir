// RUN: scalify-compile %s --simulate-ranks --compile-to=distribution -o - | FileCheck %s
// RUN: scalify-compile %s --simulate-ranks=2 --compile-to=distribution -o - | FileCheck %s
// RUN: not scalify-compile %s --simulate-ranks=4 -o - 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not scalify-compile %s --simulate-ranks=all -o - 2>&1 | FileCheck %s --check-prefix=WORD

// CHECK: stablehlo.add
// CHECK-NOT: all_reduce
// COUNT: is of a mesh of 2 devices, and 4 ranks shall be simulated
// WORD: --simulate-ranks needs a number of at least 1, not 'all'

sdy.mesh @mesh = <["x"=2]>

func.func public @main(%x: tensor<4xf32> {scalify.whole_type = tensor<8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
