// RUN: scalify-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{mesh axis 'x' is named twice}}
sdy.mesh @mesh = <["x"=2, "x"=2]>

// -----

// expected-error @+1 {{mesh axis 'x' needs a positive size but got 0}}
sdy.mesh @mesh = <["x"=0]>

// -----

// expected-error @+1 {{mesh has more devices than fit in 64 bits}}
sdy.mesh @mesh = <["x"=9223372036854775807, "y"=4]>

// -----

// The product of both sizes of the part is 0 in 64 bits.
sdy.mesh @mesh = <["x"=4]>
// expected-error @+1 {{names a part of axis 'x' that does not divide it}}
func.func @part(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(4294967296)4294967296}]>}) {
  return
}

// -----

// expected-error @+1 {{mesh of 2 devices has 3 device ids}}
sdy.mesh @mesh = <["x"=2], device_ids=[0, 1, 2]>

// -----

// expected-error @+1 {{argument 0 names the unknown mesh @mesh}}
func.func @unknown_mesh(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
// expected-error @+1 {{argument 0 has a sharding of rank 2 for a value of type 'tensor<8xf32>'}}
func.func @rank(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
// expected-error @+1 {{argument 0 needs '#sdy.sharding' as 'sdy.sharding' but got 1 : i32}}
func.func @no_sharding(%a: tensor<8xf32> {sdy.sharding = 1 : i32}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @unknown_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{names the unknown axis 'y' of mesh #sdy.mesh<["x"=2]>}}
  %0 = sdy.sharding_constraint %a <@mesh, [{"y"}]> : tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @axis_twice(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{names axis 'x' twice}}
  %0 = sdy.reshard %a <@mesh, [{"x"}, {"x"}]> : tensor<8x4xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @local_type(%a: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{operand 0 needs local type 'tensor<4xf32>' but got 'tensor<8xf32>'}}
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
    sdy.return %b : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @+1 {{unexpected 'shared', expected replicated or unreduced, once}}
func.func @unknown_part(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], shared={"x"}>}) {
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @collective(%a: tensor<8xf32>) {
  // expected-error @+1 {{has a sharding of rank 2 for a value of type 'tensor<8xf32>'}}
  %0 = "sdy.collective_permute"(%a) <{out_sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @collective_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{names the unknown axis 'y' of mesh}}
  %0 = "sdy.all_reduce"(%a) <{out_sharding = #sdy.sharding<@mesh, [{}]>, reduction_axes = #sdy<axis_ref_list{"y"}>}> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=4]>
func.func @part_of_an_axis(%a: tensor<8xf32>) {
  // expected-error @+1 {{names a part of axis 'x' that does not divide it}}
  %0 = sdy.sharding_constraint %a <@mesh, [{"x":(1)3}]> : tensor<8xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @axes_of_each_dimension(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has axes of 1 dimensions for a value of type}}
  %0 = "sdy.all_gather"(%a) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"x"}]>, out_sharding = #sdy.sharding<@mesh, [{}, {}]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

sdy.mesh @mesh = <["x"=2]>
func.func @no_dimension(%a: tensor<8x4xf32>) {
  // expected-error @+1 {{has no dimension 2}}
  %0 = "sdy.all_to_all"(%a) <{out_sharding = #sdy.sharding<@mesh, [{}, {"x"}]>, params = #sdy<all_to_all_param_list[{"x"}: 0->2]>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}
