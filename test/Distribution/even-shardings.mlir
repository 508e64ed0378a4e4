// RUN: scalify-opt %s --scalify-even-shardings --split-input-file | FileCheck %s

// The example of the td entry: 2 divides 6, but 8 does not; 2 does not divide 3.

sdy.mesh @mesh = <["a"=2, "b"=4, "c"=2]>

// CHECK-LABEL: func.func @results_of_ops
func.func @results_of_ops(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {
  // CHECK: stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {}]>]>}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {"c"}]>]>} : tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}

// Axes minor to a dropped one are dropped too, although 2 would divide 6. What
// divides stays, and so do open dimensions and replicated axes.

// CHECK-LABEL: func.func @minor_axes
func.func @minor_axes(%x: tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  // CHECK: stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b", "a"}, {}]>]>} : tensor<6x8xf32>
  // CHECK: stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"b", ?}], replicated={"a"}>]>}
  %1 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"b", ?}], replicated={"a"}>]>} : tensor<6x8xf32>
  return %0, %1 : tensor<6x8xf32>, tensor<6x8xf32>
}

// Each half of axis "b" has 2 devices, which divide 6.

// CHECK-LABEL: func.func @sub_axes
func.func @sub_axes(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
  // CHECK: stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b":(2)2}, {"b":(1)2, "a"}]>]>}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b":(2)2}, {"b":(1)2, "a"}]>]>} : tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}

// Each result of an op has a sharding of its own.

// CHECK-LABEL: func.func @several_results
func.func @several_results(%x: tensor<6xf32>, %y: tensor<8xf32>) -> (tensor<6xf32>, tensor<8xf32>) {
  // CHECK: stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{"b"}]>]>}
  %0:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>, <@mesh, [{"b"}]>]>} %x, %y : tensor<6xf32>, tensor<8xf32>
  return %0#0, %0#1 : tensor<6xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @reshards
func.func @reshards(%x: tensor<6xf32>) -> tensor<6xf32> {
  // CHECK: sdy.reshard %arg0 <@mesh, [{}]>
  %0 = sdy.reshard %x <@mesh, [{"b"}]> : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// A function's results are made even. JAX refuses such arguments, and
// scalify-localize says which one is wrong.

// CHECK-LABEL: func.func @results_of_functions
// CHECK-SAME: (%arg0: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>})
// CHECK-SAME: -> (tensor<6xf32> {jax.result_info = "y", sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<6xf32>)
func.func @results_of_functions(
    %x: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>})
    -> (tensor<6xf32> {jax.result_info = "y", sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}, tensor<6xf32>) {
  return %x, %x : tensor<6xf32>, tensor<6xf32>
}

// -----

// A mesh in the sharding itself, and an axis of one device.

// CHECK-LABEL: func.func @inlined_mesh
func.func @inlined_mesh(%x: tensor<6x6xf32>) -> tensor<6x6xf32> {
  // CHECK: stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=4, "y"=1]>, [{}, {"y"}]>]>}
  %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=4, "y"=1]>, [{"x"}, {"y"}]>]>} : tensor<6x6xf32>
  return %0 : tensor<6x6xf32>
}

// -----

sdy.mesh @mesh = <["x"=4]>

// CHECK-LABEL: func.func @inside_of_loops
func.func @inside_of_loops(%x: tensor<6xf32>, %i: tensor<i32>) -> tensor<6xf32> {
  // CHECK: stablehlo.while
  // CHECK-SAME: sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, []>]>
  %0:2 = stablehlo.while(%a = %x, %n = %i) : tensor<6xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>}
  cond {
    %1 = stablehlo.compare LT, %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    // CHECK: stablehlo.negate %{{.*}} {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>}
    %1 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<6xf32>
    stablehlo.return %1, %n : tensor<6xf32>, tensor<i32>
  }
  return %0#0 : tensor<6xf32>
}
