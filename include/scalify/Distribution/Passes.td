//===- Passes.td - Passes of the Distribution stage --------*- tablegen -*-===//

#ifndef SCALIFY_DISTRIBUTION_PASSES
#define SCALIFY_DISTRIBUTION_PASSES

include "mlir/Pass/PassBase.td"

def LocalizePass : Pass<"scalify-localize", "::mlir::ModuleOp"> {
  let summary = "convert a partitioned program to the program of one device";
  let description = [{
    Before: one function on whole values, without calls. Every value has an
    `sdy.sharding` or is replicated. Each op reads its operands in a sharding
    that it can use, and sdy collectives stand where a sharding changes. This is
    the output of Shardy's partitioner before its own last pass.
    After: the same ops on one device's shards, with stablehlo collectives whose
    replica groups are in mesh order. What depends on the device, such as the
    offset of a shard, comes from a table indexed by `stablehlo.partition_id`.
    Arguments and results keep their `sdy.sharding`. `scalify.whole_type` is
    their unsharded type. `scalify.parts` gives each dimension a list of
    (stride, size) pairs, the major one first: a device's shard index along the
    dimension has the digits device / stride mod size.

    ```mlir
    sdy.mesh @mesh = <["data"=2]>
    %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0]
        : (tensor<8x3xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %1 = "sdy.all_reduce"(%0) <{out_sharding = #sdy.sharding<@mesh, [{}, {} ]>,
        reduction_axes = #sdy<axis_ref_list{"data"}>}>
        : (tensor<3x4xf32>) -> tensor<3x4xf32>
    ```
    becomes, where x and dy are sharded along their first dimension,
    ```mlir
    %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0]
        : (tensor<4x3xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> ...
    ```

    Errors: an op that would need elements of other devices without a collective
    before it, a dimension that its axes do not divide, and a mesh whose devices
    are not in order.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::sdy::SdyDialect"];
}

def ShardBatchPass : Pass<"scalify-shard-batch", "::mlir::ModuleOp"> {
  let summary = "shard the batch of an unsharded step over ranks";
  let description = [{
    Before: a step without a mesh, whose arguments have roles. After: a mesh of
    one axis, `data`. Arguments with the role `batch` are sharded by rows; all
    other arguments and all results are replicated. Rows are the first
    dimension, or the second one where a loop iterates over the first
    (micro-batches). Errors: row counts that the ranks do not divide or that
    differ between batches, and programs that already have shardings.

    ```mlir
    func.func public @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>}, %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>}) -> tensor<16x4xf32>
    // becomes, for 4 ranks
    sdy.mesh @mesh = <["data"=4]>
    func.func public @main(%w: tensor<8x4xf32> {scalify.role = #scalify.role<param>, sdy.sharding = #sdy.sharding<@mesh, [{}, {} ]>},
                           %x: tensor<16x8xf32> {scalify.role = #scalify.role<batch>, sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {} ]>})
        -> (tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {} ]>})
    ```
  }];
  let dependentDialects = ["::scalify::sdy::SdyDialect"];
  let options = [Option<"ranks", "ranks", "int64_t", /*default=*/"1",
                        "number of ranks; 1 changes nothing">];
}

def HideMarksPass : Pass<"scalify-hide-marks", "::mlir::ModuleOp"> {
  let summary = "encode scale hints as optimization_barrier during partitioning";
  let description = [{
    Before: a program with `scalify.data_scale`, `scalify.override_scale` and
    `scalify.rescale_point`. After: each is an optimization_barrier on the same
    values, through which shardings propagate; `scalify.mark` holds the op's
    name and attributes. The scale result of `scalify.data_scale` is a constant
    1 meanwhile. `scalify-restore-marks` is the inverse.

    ```mlir
    %d, %s = scalify.data_scale %x : tensor<4xf32>
    // becomes
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %d:2 = stablehlo.optimization_barrier {scalify.mark = {attrs = {}, name = "scalify.data_scale"}} %x, %one : tensor<4xf32>, tensor<f32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def RestoreMarksPass : Pass<"scalify-restore-marks", "::mlir::ModuleOp"> {
  let summary = "decode scale hints from optimization_barrier after partitioning";
  let description = [{
    Before: barriers of `scalify-hide-marks`, on whole values or on shards.
    After: the original ops on the same values. A scale that the step measures
    is that of the device's shard.

    ```mlir
    %y = stablehlo.optimization_barrier {scalify.mark = {attrs = {statistic = #scalify<statistic max>}, name = "scalify.rescale_point"}} %x : tensor<2xf32>
    // becomes
    %y = scalify.rescale_point max %x : tensor<2xf32>
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect"];
}

def EvenShardingsPass : Pass<"scalify-even-shardings", "::mlir::ModuleOp"> {
  let summary = "drop mesh axes that do not divide their dimension";
  let description = [{
    Before: a program on whole values, as Shardy's propagation leaves it. Axes
    may shard a dimension that they do not divide. After: the axes of each
    dimension of ops' results, reshards and functions' results divide it: from
    the first axis that does not, the major one first, the dimension is
    replicated. Arguments keep their shardings; `scalify-localize` refuses those
    that do not divide.

    ```mlir
    sdy.mesh @mesh = <["a"=2, "b"=4, "c"=2]>
    %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", "b"}, {"c"} ]>]>} : tensor<6x3xf32>
    // becomes
    %0 = stablehlo.negate %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {} ]>]>} : tensor<6x3xf32>
    ```

    Errors: a sharding that does not fit its value, or whose mesh is unknown.
  }];
  let dependentDialects = ["::scalify::sdy::SdyDialect"];
}

def GatherUnshardablePass
    : Pass<"scalify-gather-unshardable", "::mlir::ModuleOp"> {
  let summary = "reshard operands along dimensions that an op needs whole";
  let description = [{
    Before: the output of `scalify-even-shardings`. Shardy shards ops along
    dimensions in which an element of the result depends on elements of other
    shards. After: operands and results of these ops are replicated along these
    dimensions, by an `sdy.reshard` before and after the op. An operand that is
    an `stablehlo.iota` or `sdy.constant` is cloned in that sharding instead.

    - concatenate, reverse: the dimensions of the op
    - slice, dynamic_update_slice: dimensions of which it reads or writes a part
    - pad: padded dimensions
    - reduce_window, select_and_scatter: dimensions along which a window is not
      the element in its place
    - convolution: spatial dimensions
    - reduce by anything but sum, maximum, minimum, and, or: reduced dimensions

    ```mlir
    sdy.mesh @mesh = <["x"=2]>
    %0 = stablehlo.reverse %x, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"} ]>]>} : tensor<8xf32>
    // becomes, where %x is sharded likewise
    %1 = sdy.reshard %x <@mesh, [{} ]> : tensor<8xf32>
    %2 = stablehlo.reverse %1, dims = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{} ]>]>} : tensor<8xf32>
    %0 = sdy.reshard %2 <@mesh, [{"x"} ]> : tensor<8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::sdy::SdyDialect"];
}

def BucketCollectivesPass
    : Pass<"scalify-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "bucket collectives in order of readiness";
  let description = [{
    Before: a device's program. After: all-reduces, and all-gathers, all-to-alls
    and reduce-scatters of arrays of rank 1, that differ in size only are merged
    into buckets of up to `bytes` of a rank's operand; results do not change. A
    rank's shard of a bucket is the concatenation of its shards of the arrays.
    All-gathers whose operands are available when the step starts are bucketed
    in the order of their first readers, and the first bucket holds a quarter of
    `bytes`. All other collectives are bucketed in program order, a bucket is
    sent when its last operand is ready, and the last bucket holds a quarter.
    With `by-chunk` a bucket does not cross stage borders, and each chunk of a
    pipeline has small first and last buckets of its own.

    ```mlir
    %0 = "stablehlo.all_gather"(%a) ... : (tensor<2xf32>) -> tensor<4xf32>
    %1 = "stablehlo.all_gather"(%b) ... : (tensor<3xf32>) -> tensor<6xf32>
    // becomes
    %2 = stablehlo.concatenate %a, %b : (tensor<1x2xf32>, tensor<1x3xf32>) -> tensor<1x5xf32>
    %3 = "stablehlo.all_gather"(%2) ... : (tensor<5xf32>) -> tensor<10xf32>
    %4 = stablehlo.reshape %3 : (tensor<10xf32>) -> tensor<2x5xf32>
    %0 = stablehlo.slice %4 [0:2, 0:2] : (tensor<2x5xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.slice %4 [0:2, 2:5] : (tensor<2x5xf32>) -> tensor<2x3xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"bytes", "bytes", "int64_t", "26214400",
           "size limit of a bucket; 0 disables bucketing">,
    Option<"byChunk", "by-chunk", "bool", "false",
           "bucket the collectives of each pipeline chunk separately">
  ];
  let statistics = [
    Statistic<"numBuckets", "buckets", "buckets formed">,
    Statistic<"numBucketed", "bucketed", "collectives merged into a bucket">
  ];
}

def SumBehindLoopsPass
    : Pass<"scalify-sum-behind-loops", "::mlir::ModuleOp"> {
  let summary = "sink all-reduces of accumulators out of loops";
  let description = [{
    Before: the output of `scalify-localize`. After: an all-reduce of a value
    that a loop adds to a carry (gradients of micro-batches) or writes into a
    stack (gradients of scanned layers) follows the loop, if the carry starts
    from zero and has no other use. Stacks keep their bits. Micro-batches are
    summed on each rank first, and then over ranks.

    ```mlir
    %0 = stablehlo.while(%sum = %zero, ...) do {
      %1 = "stablehlo.all_reduce"(%g) ...
      %2 = stablehlo.add %sum, %1
    // becomes
    %0 = stablehlo.while(%sum = %zero, ...) do {
      %2 = stablehlo.add %sum, %g
    }
    %1 = "stablehlo.all_reduce"(%0) ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"stacks", "stacks", "bool", "true",
           "also move sums of stacks out of outermost loops">
  ];
  let statistics = [Statistic<"numMoved", "moved", "sums moved out of loops">];
}

def SimulateRanksPass : Pass<"scalify-simulate-ranks", "::mlir::ModuleOp"> {
  let summary = "simulate all ranks of a mesh in one process";
  let description = [{
    Before: `@main` on one device's shards, with stablehlo collectives, as
    `--scalify-localize` leaves it. Ops of other dialects and arguments without
    a sharding, which are replicated, may have been added by Precision.
    After: `@main` on whole values, without mesh, device ids or collectives.
    Each rank slices its shards out of the arguments. An op is cloned for each
    rank, or once for all ranks that have the same operands. A collective
    becomes its effect on the ranks' values: a sum goes from the first member of
    a group to the last, in F32 if the element type is narrower, and is rounded
    once. Results are concatenated from their shards; of replicas the first
    rank's is taken.

    ```mlir
    %0 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] ...
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1]]> ...
    ```
    becomes
    ```mlir
    %x0 = stablehlo.slice %x [0:4, 0:3] ...
    %dy0 = stablehlo.slice %dy [0:4, 0:5] ...
    %x1 = stablehlo.slice %x [4:8, 0:3] ...
    %dy1 = stablehlo.slice %dy [4:8, 0:5] ...
    %r0 = stablehlo.dot_general %x0, %dy0, contracting_dims = [0] x [0] ...
    %r1 = stablehlo.dot_general %x1, %dy1, contracting_dims = [0] x [0] ...
    %1 = stablehlo.add %r0, %r1 ...
    ```

    Ranks share loops and branches. Errors: a condition that is not provably the
    same on all ranks, and a result without a sharding that may differ between
    ranks.
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", "0",
           "how many ranks the mesh must have (0: any number)">
  ];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def ShardStatePass : Pass<"scalify-shard-state", "::mlir::ModuleOp"> {
  let summary = "shard replicated state over ranks (ZeRO)";
  let description = [{
    Before: the output of `scalify-localize`, with roles and donation. After:
    donated state that is updated elementwise from a sum over ranks is sharded:
    each of these ranks keeps and updates one share. A share is an equal piece
    of the flattened, zero-padded array, in whole chunks; all ranks' shares have
    the same size. `scalify.flat` on arguments and results describes the
    original array.
    The sum becomes a reduce-scatter. Sums of all elements, such as the
    gradient norm, become sums over the shares in chunks. The chunk size depends
    on the number of elements alone, so that their bits do not depend on the
    number of ranks.
    Levels 1 and 2 shard moments, and all-gather parameters after their update.
    (Gradients are sharded as well: a step has no place to keep them whole.)
    Level 3 also shards parameters, and all-gathers them at the start of the
    step. A remark names what stays whole.

    ```mlir
    %g = "stablehlo.all_reduce"(%d) ... : (tensor<128xf32>) -> tensor<128xf32>
    %m = stablehlo.add %moment, %g : tensor<128xf32>
    return %m
    // becomes on two ranks, where %moment is an argument of type tensor<64xf32>
    %g = "stablehlo.reduce_scatter"(%d) ... : (tensor<128xf32>) -> tensor<64xf32>
    %m = stablehlo.add %moment, %g : tensor<64xf32>
    return %m
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [Option<"level", "level", "int64_t", "2",
                        "ZeRO level: 1 and 2 shard moments, 3 parameters too">];
}

def ScatterInLoopsPass
    : Pass<"scalify-scatter-in-loops", "::mlir::ModuleOp"> {
  let summary = "move reduce-scatter into the accumulation loop";
  let description = [{
    Before: the output of `scalify-shard-state`. After: a reduce-scatter of a
    value that a loop accumulates from zeros, such as micro-batch gradients, is
    in the loop, which accumulates shares. This divides the accumulator by the
    number of ranks and multiplies the bytes sent by the trip count. A sum that
    something else reads whole stays after the loop.

    ```mlir
    %0 = stablehlo.while(%sum = %zeros, ...) do {   // tensor<8xf32>
      %2 = stablehlo.add %sum, %g
    }
    %1 = "stablehlo.reduce_scatter"(%0) ... : (tensor<8xf32>) -> tensor<4xf32>
    // becomes
    %1 = stablehlo.while(%sum = %zeros, ...) do {   // tensor<4xf32>
      %s = "stablehlo.reduce_scatter"(%g) ... : (tensor<8xf32>) -> tensor<4xf32>
      %2 = stablehlo.add %sum, %s
    }
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [Statistic<"numMoved", "moved", "sums moved into loops">];
}

def SliceCollectivesPass
    : Pass<"scalify-slice-collectives", "::mlir::ModuleOp"> {
  let summary = "split collectives of stacked layers into one for each layer";
  let description = [{
    Before: a device's program, in which `scalify-shard-state` cuts stacks slice
    by slice: their collectives are along the second dimension. After: each
    slice of a stack that a loop writes slice by slice has a reduce-scatter or
    all-reduce of its own, with the same bits. All arrays of a layer follow each
    other, in the order in which the loop computes the layers. With `gathers`
    the pass instead splits all-gathers of stacks that loops read. So the first
    layer's sum needs no other layer, and loops over layers overlap with their
    collectives once they are unrolled. The other collectives of stacks, such as
    those of gradients whose scale is measured over the whole stack, become
    collectives of flattened arrays.

    ```mlir
    %g = "stablehlo.reduce_scatter"(%stack) <{scatter_dimension = 1 ...
        : (tensor<2x8xf32>) -> tensor<2x4xf32>
    // becomes, where the loop that writes %stack writes the last slice first
    %1 = stablehlo.slice %stack [1:2, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    %b = stablehlo.reshape %1 : (tensor<1x8xf32>) -> tensor<8xf32>
    %h = "stablehlo.reduce_scatter"(%b) <{scatter_dimension = 0 ...
        : (tensor<8xf32>) -> tensor<4xf32>
    %0 = stablehlo.slice %stack [0:1, 0:8] : (tensor<2x8xf32>) -> tensor<1x8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [Option<"gathers", "gathers", "bool", "false",
                        "split all-gathers instead of sums">];
  let statistics = [Statistic<"numSliced", "sliced", "collectives split">];
}

def NarrowCollectivesPass
    : Pass<"scalify-narrow-collectives", "::mlir::ModuleOp"> {
  let summary = "narrow collectives whose values are narrow anyway";
  let description = [{
    Before: `@main` on one device's shards, with the casts of Precision. After:
    the same values, to the bit, from collectives on narrow data where
    - all readers of an all-gather, all-to-all or permute apply the same cast:
      each rank casts its operand before the collective. A cast that rounds
      stochastically after an all-gather uses the random words of the elements'
      positions in the whole value;
    - the operand of an all-gather, all-to-all or permute was narrow: it is
      widened after the collective;
    - the operand of a sum was narrow: each rank receives all ranks' narrow data
      of its piece (all-to-all) and sums it in F32 in the order of ranks. An
      all-reduce is followed by an all-gather of the sums.
    The amax of an all-gathered value becomes the maximum over ranks of the
    shards' amaxes, so that scales computed from it are known before the
    all-gather. Amaxes of arguments share one message.
    The scale must be provably the same on all ranks of a group: a constant,
    computed from replicated arguments, or from values that these ranks have
    all-reduced or all-gathered. A remark names values that are narrow on one
    side only and stay wide.

    ```mlir
    %w = "stablehlo.all_gather"(%share) ... : (tensor<4xf32>) -> tensor<8xf32>
    %q = scalify.quantize %w, %s : tensor<8xf32> -> tensor<8xf8E4M3FN>
    // becomes
    %p = scalify.quantize %share, %s : tensor<4xf32> -> tensor<4xf8E4M3FN>
    %q = "stablehlo.all_gather"(%p) ... : (tensor<4xf8E4M3FN>) -> tensor<8xf8E4M3FN>

    %g = scalify.dequantize %d, %s : tensor<8xf8E4M3FN> -> tensor<8xf32>
    %r = "stablehlo.reduce_scatter"(%g) ... : (tensor<8xf32>) -> tensor<4xf32>
    // becomes
    %e = "stablehlo.all_to_all"(%d) ... : (tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN>
    %p = stablehlo.reshape %e : (tensor<8xf8E4M3FN>) -> tensor<2x4xf8E4M3FN>
    %g = scalify.dequantize %p, %s : tensor<2x4xf8E4M3FN> -> tensor<2x4xf32>
    %r = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0]
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::ScalifyDialect"];
  let statistics = [Statistic<"numNarrowed", "narrowed",
                              "collectives narrowed">];
}

def OrderSumsPass : Pass<"scalify-order-sums", "::mlir::ModuleOp"> {
  let summary = "order sums over ranks by rank";
  let description = [{
    Before: a device's program. After: the transport sums or multiplies no
    floats. Each rank receives all ranks' data of its piece (all-to-all) and
    reduces it in group order, in F32 if the element type is narrower, rounded
    once. So the bits are those of one process, and of transports that reduce in
    rank order themselves. An all-reduce is followed by an all-gather of the
    sums. If all ranks' data together have at most `gather-bytes`, each rank
    all-gathers and reduces all of it: one message instead of two. Maxima,
    minima and integer sums have the same bits in any order and stay with the
    transport.
    The reduction has `scalify.in_order`: it is a kernel of its own, so that it
    can start as soon as the data arrive, and is never split into vector lanes.

    ```mlir
    %r = "stablehlo.reduce_scatter"(%g) ... : (tensor<8xf32>) -> tensor<4xf32>
    // becomes
    %e = "stablehlo.all_to_all"(%p) ... : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %r = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0]

    %l = "stablehlo.all_reduce"(%a) ... : (tensor<f32>) -> tensor<f32>
    // becomes
    %b = "stablehlo.all_gather"(%c) ... : (tensor<1xf32>) -> tensor<2xf32>
    %d = stablehlo.reshape %b : (tensor<2xf32>) -> tensor<2x1xf32>
    %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0]
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [Option<"gatherBytes", "gather-bytes", "int64_t", "262144",
                        "total bytes of a group up to which ranks all-gather">];
  let statistics = [Statistic<"numOrdered", "ordered", "sums ordered">];
}

def LimitRescale : Pass<"scalify-limit-rescale", "::mlir::ModuleOp"> {
  let summary = "recompute the limits of @rescale after distribution";
  let description = [{
    Before: the output of `scalify-adapt-scales`, whose casts later passes have
    moved or cloned. After: the limits of `@rescale` are based on the number of
    elements that main casts under each name, times the number of ranks, whose
    counts are added. The scale of an erased cast does not move. Does nothing
    without `@rescale`.

    ```mlir
    // 0.01 of 32 values, of the program of one of two ranks:
    %limit = stablehlo.constant dense<3.200000e-01> : tensor<1xf32>
    // becomes
    %limit = stablehlo.constant dense<6.400000e-01> : tensor<1xf32>
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

#endif // SCALIFY_DISTRIBUTION_PASSES
