// RUN: scalify-opt %s --scalify-bucket-collectives --split-input-file | FileCheck %s
// RUN: scalify-opt %s --scalify-bucket-collectives=bytes=4 --split-input-file | FileCheck %s --check-prefix=SMALL

sdy.mesh @mesh = <["data"=2]>

// The maximum of one array brings the scale of what is sent of it, which stands
// before the maximum of the other. Once both are sent together, by one message,
// so are the maxima.
// CHECK-LABEL: func.func @main(
// CHECK: "stablehlo.all_reduce"(%{{.*}}) {{.*}}({
// CHECK: }) : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NOT: all_reduce
// CHECK: scalify.quantize
// CHECK: scalify.quantize
// CHECK: "stablehlo.all_to_all"(%{{.*}}) {{.*}} : (tensor<10xf8E4M3FN>) -> tensor<10xf8E4M3FN>
// CHECK-NOT: all_to_all

// Messages of one byte an element do not fit together: each has its scale first.
// SMALL: all_reduce
// SMALL: all_to_all
// SMALL: all_reduce
// SMALL: all_to_all
func.func @main(%a: tensor<4xf32>, %b: tensor<6xf32>, %m: tensor<f32>, %n: tensor<f32>)
    -> (tensor<4xf8E4M3FN>, tensor<6xf8E4M3FN>) {
  %0 = "stablehlo.all_reduce"(%m) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  %1 = scalify.quantize %a, %0 : tensor<4xf32> -> tensor<4xf8E4M3FN>
  %2 = "stablehlo.all_to_all"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
  %3 = "stablehlo.all_reduce"(%n) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %9 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %9 : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  %4 = scalify.quantize %b, %3 : tensor<6xf32> -> tensor<6xf8E4M3FN>
  %5 = "stablehlo.all_to_all"(%4) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<6xf8E4M3FN>) -> tensor<6xf8E4M3FN>
  return %2, %5 : tensor<4xf8E4M3FN>, tensor<6xf8E4M3FN>
}
