// RUN: scalify-opt %s -verify-diagnostics -split-input-file

func.func @groups(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs distinct ids of at least 0 in replica groups but got 0}}
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @channel(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs a channel handle above 0 to use global device ids}}
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_result(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs a result of shape 'tensor<8xf32>'}}
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @scatter_parts(%a: tensor<5xf32>) {
  // expected-error @+1 {{cannot split dimension 0 of 'tensor<5xf32>' into 2 parts}}
  %0 = "stablehlo.reduce_scatter"(%a) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<5xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @all_to_all(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs groups of split_count 4 but got 2}}
  %0 = "stablehlo.all_to_all"(%a) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 4 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @permute(%a: tensor<4xf32>) {
  // expected-error @+1 {{names source 0 twice}}
  %0 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// No number is special to the check.
func.func @largest_id(%a: tensor<4xf32>) {
  // expected-error @+1 {{needs distinct ids of at least 0 in replica groups but got 9223372036854775807}}
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[9223372036854775807, 9223372036854775807]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
}

// -----

func.func @gather_wraps(%a: tensor<4611686018427387904x0xf32>) {
  // expected-error @+1 {{has a result of more elements than 63 bits can count along dimension 0}}
  %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4611686018427387904x0xf32>) -> tensor<5x0xf32>
  return
}

// -----

// One number stands for 2^54 ids, through which no check may go.
func.func @no_device(%a: tensor<4xf32>) {
  // expected-error @+1 {{has replica groups that name no device}}
  %0 = "stablehlo.collective_broadcast"(%a) <{replica_groups = dense<-1> : tensor<4294967296x4194304xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @pair_of_many(%a: tensor<4xf32>) {
  // expected-error @+1 {{names source 1 twice}}
  %0 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<1> : tensor<9007199254740992x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @all_reduce_elements(%a: tensor<4xf32>) {
  // expected-error @+1 {{cannot reduce 'tensor<4xf32>' in elements of 'i32'}}
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %1 = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<4xf32>) -> tensor<4xi32>
  return
}
