// RUN: scalify-opt %s --scalify-shard-batch="ranks=3" -split-input-file -verify-diagnostics

// expected-error @below {{the batch 'arg0' of type 'tensor<16x8xf32>' has no rows that 3 ranks divide: lower the step with the whole batch of all ranks}}
func.func @main(%x: tensor<16x8xf32> {scalify.role = "batch"}) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}

// -----

// expected-error @below {{has no argument with the role 'batch', of which ranks could have rows each: lower it with shardings}}
func.func @main(%x: tensor<16x8xf32> {scalify.role = "param"}) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["x"=2]>
// expected-error @below {{has a mesh of its own, whose shardings say what ranks have}}
func.func @main(%x: tensor<16x8xf32> {scalify.role = "batch"}) -> tensor<16x8xf32> {
  return %x : tensor<16x8xf32>
}
