// RUN: scalify-opt %s --scalify-shard-batch="ranks=3" -split-input-file -verify-diagnostics

// expected-error @below {{the batch 'arg0' of type 'tensor<16x9xf32>' has no rows that 3 ranks divide: lower the step with the whole batch of all ranks, or with shardings}}
func.func @main(%x: tensor<16x9xf32> {scalify.role = #scalify.role<batch>}) -> tensor<16x9xf32> {
  return %x : tensor<16x9xf32>
}

// -----

// expected-error @below {{has no argument with the role 'batch' to shard: lower it with shardings}}
func.func @main(%x: tensor<16x8xf32> {scalify.role = #scalify.role<param>}) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>
// expected-error @below {{already has a mesh: partition it by its own shardings}}
func.func @main(%x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}

// -----

// expected-error @below {{has shardings of GSPMD: lower it with Shardy's (jax_use_shardy_partitioner, JAX's default)}}
func.func @main(%x: tensor<15x9xf32> {scalify.role = #scalify.role<batch>, mhlo.sharding = "{replicated}"}) -> tensor<15x9xf32> {
  return %x : tensor<15x9xf32>
}

// -----

// expected-error @below {{takes or returns 'tensor<?xf32>', which is no array of a known shape}}
func.func @main(%x: tensor<?xf32> {scalify.role = #scalify.role<batch>}) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @below {{the batch 'arg1' of type 'tensor<6xf32>' has 6 rows, and another one 3: lower the step with shardings}}
func.func @main(%x: tensor<3xf32> {scalify.role = #scalify.role<batch>}, %y: tensor<6xf32> {scalify.role = #scalify.role<batch>}) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
