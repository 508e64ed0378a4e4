// RUN: scalify-opt %s --scalify-simulate-ranks=ranks=2 --verify-diagnostics --split-input-file

// expected-error @+1 {{has no mesh, and so no ranks to simulate: partition the program first, by 'python -m scalify.partition'}}
func.func @main(%x: tensor<8xf32>) {
  return
}

// -----

sdy.mesh @mesh = <["x"=4]>

// expected-error @+1 {{is of a mesh of 4 devices, and 2 ranks shall be simulated}}
func.func @main(%x: tensor<2xf32> {scalify.whole_type = tensor<8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

// expected-error @+1 {{that is not a shard of its whole type: partition the program first}}
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xf32> {scalify.whole_type = tensor<8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'sdy.all_gather' op belongs to an unpartitioned program}}
  %0 = "sdy.all_gather"(%x) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"x"}]>, out_sharding = #sdy.sharding<@mesh, [{}]>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

// expected-error @+1 {{has a result 0 that may differ between ranks, but has no sharding to assemble it by}}
func.func @main(%x: tensor<4xf32> {scalify.whole_type = tensor<8xf32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%n: tensor<1xi32> {scalify.whole_type = tensor<2xi32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %most = stablehlo.reshape %n : (tensor<1xi32>) -> tensor<i32>
  // expected-error @+1 {{'stablehlo.while' op has a condition that may differ between ranks, which one process cannot simulate; derive it from a value that is the same on all ranks, such as the result of an all-reduce}}
  %0 = stablehlo.while(%i = %zero) : tensor<i32>
  cond {
    %1 = stablehlo.compare LT, %i, %most, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%n: tensor<1xi32> {scalify.whole_type = tensor<2xi32>, sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %index = stablehlo.reshape %n : (tensor<1xi32>) -> tensor<i32>
  // expected-error @+1 {{'stablehlo.case' op has an index that may differ between ranks}}
  %0 = "stablehlo.case"(%index) ({
    stablehlo.return %index : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{names replicas, not devices of a mesh}}
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{has devices of the mesh in none of its groups}}
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0]]> : tensor<1x1xi64>, use_global_device_ids}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{names a device beyond the 2 of the mesh}}
  %0 = "stablehlo.collective_permute"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>

func.func @main(%x: tensor<4xf32>) {
  // expected-error @+1 {{combines elements by 'stablehlo.reshape', which has no meaning for all elements at once}}
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.reshape %a : (tensor<f32>) -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
