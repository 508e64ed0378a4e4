// RUN: scalify-opt %s --scalify-narrow-collectives --split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=2]>

// All that read the weight cast it alike, behind a slice and a transpose: each
// rank casts its share, and E4M3 is gathered.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[SHARE:.*]]: tensor<4xf32>
// CHECK: %[[SCALE:.*]] = stablehlo.constant dense<2.500000e-01>
// CHECK: %[[CAST:.*]] = scalify.quantize %[[SHARE]], %[[SCALE]] {cast = "w"} : tensor<4xf32> -> tensor<4xf8E4M3FN>
// CHECK: %[[ALL:.*]] = "stablehlo.all_gather"(%[[CAST]]) {{.*}} -> tensor<8xf8E4M3FN>
// CHECK: %[[OWN:.*]] = stablehlo.slice %[[ALL]] [0:6]
// CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[OWN]] : (tensor<6xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>
// CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[ROWS]]
// CHECK: return %[[TURNED]] : tensor<3x2xf8E4M3FN>
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> tensor<3x2xf8E4M3FN> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.slice %0 [0:6] : (tensor<8xf32>) -> tensor<6xf32>
  %2 = stablehlo.reshape %1 : (tensor<6xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %4 = scalify.quantize %3, %scale {cast = "w"} : tensor<3x2xf32> -> tensor<3x2xf8E4M3FN>
  return %4 : tensor<3x2xf8E4M3FN>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// A share that is stored in F16 is gathered as such where it is read wide.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[SHARE:.*]]: tensor<4xf16>
// CHECK: %[[ALL:.*]] = "stablehlo.all_gather"(%[[SHARE]]) {{.*}} -> tensor<8xf16>
// CHECK: %[[WIDE:.*]] = scalify.dequantize %[[ALL]], %{{.*}} : tensor<8xf16> -> tensor<8xf32>
// CHECK: stablehlo.negate %[[WIDE]]
func.func @main(%share: tensor<4xf16> {scalify.whole_type = tensor<8xf32>}) -> tensor<8xf32> {
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %wide = scalify.dequantize %share, %scale : tensor<4xf16> -> tensor<4xf32>
  %0 = "stablehlo.all_gather"(%wide) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// A sum of narrow data: by an all-to-all, in F32 from -0 on, so that it is the
// sum of two values whatever their signs of zero are.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[DATA:.*]]: tensor<3xf8E5M2>
// CHECK: %[[FILLED:.*]] = stablehlo.pad %[[DATA]], %{{.*}} : (tensor<3xf8E5M2>, tensor<f8E5M2>) -> tensor<4xf8E5M2>
// CHECK: %[[GOT:.*]] = "stablehlo.all_to_all"(%[[FILLED]]) {{.*}} -> tensor<4xf8E5M2>
// CHECK: %[[PARTS:.*]] = stablehlo.reshape %[[GOT]] : (tensor<4xf8E5M2>) -> tensor<2x2xf8E5M2>
// CHECK: %[[WIDE:.*]] = scalify.dequantize %[[PARTS]], %{{.*}} : tensor<2x2xf8E5M2> -> tensor<2x2xf32>
// CHECK: %[[ZERO:.*]] = stablehlo.constant dense<-0.000000e+00>
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[WIDE]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0]
// CHECK: return %[[SUM]] : tensor<2xf32>
func.func @main(%data: tensor<3xf8E5M2>) -> tensor<2xf32> {
  %scale = stablehlo.constant dense<2.500000e-01> : tensor<f32>
  %wide = scalify.dequantize %data, %scale : tensor<3xf8E5M2> -> tensor<3xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %filled = stablehlo.pad %wide, %zero, low = [0], high = [1], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = "stablehlo.reduce_scatter"(%filled) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// FP8-LM's all-reduce: what each rank brings is narrow, on a scale that all
// have reduced, and so is the sum. Both ways are of bytes.
// CHECK-LABEL: func.func @main
// CHECK: %[[SCALE:.*]] = "stablehlo.all_reduce"
// CHECK: "stablehlo.all_to_all"(%{{.*}}) {{.*}} -> tensor<4xf8E4M3FN>
// CHECK: %[[SUM:.*]] = stablehlo.reduce(
// CHECK: %[[CAST:.*]] = scalify.quantize %[[SUM]], %[[SCALE]] {cast = "sum"} : tensor<2xf32> -> tensor<2xf8E4M3FN>
// CHECK: "stablehlo.all_gather"(%[[CAST]]) {{.*}} -> tensor<4xf8E4M3FN>
// CHECK-NOT: tensor<4xf32>
func.func @main(%data: tensor<3xf8E4M3FN>, %own: tensor<f32> {scalify.whole_type = tensor<2xf32>}) -> tensor<3xf8E4M3FN> {
  %scale = "stablehlo.all_reduce"(%own) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  %wide = scalify.dequantize %data, %scale : tensor<3xf8E4M3FN> -> tensor<3xf32>
  %0 = "stablehlo.all_reduce"(%wide) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = scalify.quantize %0, %scale {cast = "sum"} : tensor<3xf32> -> tensor<3xf8E4M3FN>
  return %2 : tensor<3xf8E4M3FN>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// The largest magnitude of what is gathered is that of the shares'.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[SHARE:.*]]: tensor<4xf32>
// CHECK: %[[ABS:.*]] = stablehlo.abs %[[SHARE]] : tensor<4xf32>
// CHECK: %[[OWN:.*]] = stablehlo.reduce(%[[ABS]] init: %{{.*}}) applies stablehlo.maximum
// CHECK: %[[SCALE:.*]] = "stablehlo.all_reduce"(%{{.*}}) {{.*}} ({
// CHECK: stablehlo.maximum
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}} -> tensor<8xf8E4M3FN>
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> tensor<8xf8E4M3FN> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.abs %0 : tensor<8xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %3 = scalify.quantize %0, %2 {cast = "w"} : tensor<8xf32> -> tensor<8xf8E4M3FN>
  return %3 : tensor<8xf8E4M3FN>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// The largest magnitude of a part is not that of all shares.
// CHECK-LABEL: func.func @main
// CHECK-NOT: all_reduce
// CHECK: %[[ALL:.*]] = "stablehlo.all_gather"(%{{.*}}) {{.*}} -> tensor<8xf32>
// CHECK: %[[PART:.*]] = stablehlo.slice %[[ALL]] [0:6]
// CHECK: %[[ABS:.*]] = stablehlo.abs %[[PART]] : tensor<6xf32>
// CHECK: stablehlo.reduce(%[[ABS]] init: %{{.*}}) applies stablehlo.maximum
// CHECK-NOT: all_reduce
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> tensor<6xf8E4M3FN> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.slice %0 [0:6] : (tensor<8xf32>) -> tensor<6xf32>
  %2 = stablehlo.abs %1 : tensor<6xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
  %4 = scalify.quantize %1, %3 {cast = "w"} : tensor<6xf32> -> tensor<6xf8E4M3FN>
  return %4 : tensor<6xf8E4M3FN>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// Nor is that of what a negative padding leaves.
// CHECK-LABEL: func.func @main
// CHECK-NOT: all_reduce
// CHECK: "stablehlo.all_gather"(%{{.*}}) {{.*}} -> tensor<8xf32>
// CHECK-NOT: all_reduce
func.func @main(%share: tensor<4xf32> {scalify.whole_type = tensor<8xf32>}) -> tensor<6xf8E4M3FN> {
  %0 = "stablehlo.all_gather"(%share) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
  %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.pad %0, %zero, low = [0], high = [-2], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<6xf32>
  %2 = stablehlo.abs %1 : tensor<6xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
  %4 = scalify.quantize %1, %3 {cast = "w"} : tensor<6xf32> -> tensor<6xf8E4M3FN>
  return %4 : tensor<6xf8E4M3FN>
}

// -----

sdy.mesh @mesh = <["data"=2]>

// In loops, too, whose invariant carries are what they start from.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
// CHECK: "stablehlo.all_to_all"(%{{.*}}) {{.*}} -> tensor<4xf8E4M3FN>
// CHECK: stablehlo.reduce(%{{.*}}) applies stablehlo.add
func.func @main(%data: tensor<4xf8E4M3FN>, %scale: tensor<f32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
  %0:4 = stablehlo.while(%i = %zero, %d = %data, %s = %scale, %acc = %start) : tensor<i32>, tensor<4xf8E4M3FN>, tensor<f32>, tensor<2xf32>
  cond {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %wide = scalify.dequantize %d, %s : tensor<4xf8E4M3FN> -> tensor<4xf32>
    %1 = "stablehlo.reduce_scatter"(%wide) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<2xf32>
    %sum = stablehlo.add %acc, %1 : tensor<2xf32>
    stablehlo.return %next, %d, %s, %sum : tensor<i32>, tensor<4xf8E4M3FN>, tensor<f32>, tensor<2xf32>
  }
  return %0#3 : tensor<2xf32>
}
