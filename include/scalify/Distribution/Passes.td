//===- Passes.td - Passes of the Distribution stage --------*- tablegen -*-===//

#ifndef SCALIFY_DISTRIBUTION_PASSES
#define SCALIFY_DISTRIBUTION_PASSES

include "mlir/Pass/PassBase.td"

def LocalizePass : Pass<"scalify-localize", "::mlir::ModuleOp"> {
  let summary = "writes a partitioned program as each device runs it";
  let description = [{
    Before: one function on whole values, without calls. Every value has an
    `sdy.sharding` or is whole on every device, ops read values as they need
    them, and sdy collectives stand where a sharding changes: what Shardy's
    partitioner leaves before its own last pass.

    After: the same ops on one device's parts, with stablehlo collectives over
    groups of devices in the order of the mesh. Where a part depends on the
    device, it is looked up by `stablehlo.partition_id`. Arguments and results
    keep their `sdy.sharding`, and have their whole shape in
    `scalify.whole_type`.

    ```mlir
    sdy.mesh @mesh = <["data"=2]>
    %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0]
        : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}, {} ]>,
        reduction_axes = #sdy<axis_ref_list{"data"}>}>
        : (tensor<3x4xf32>) -> tensor<3x4xf32>
    ```
    becomes, where x and dy are split along their first dimension,
    ```mlir
    %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0]
        : (tensor<4x3xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> ...
    ```

    An op that would need elements of other devices and has no collective
    before it, a dimension that does not divide over its axes, and a mesh
    whose devices are not in order are errors.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_DISTRIBUTION_PASSES
