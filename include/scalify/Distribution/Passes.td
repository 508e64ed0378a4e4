//===- Passes.td - Passes of the Distribution stage --------*- tablegen -*-===//

#ifndef SCALIFY_DISTRIBUTION_PASSES
#define SCALIFY_DISTRIBUTION_PASSES

include "mlir/Pass/PassBase.td"

def LocalizePass : Pass<"scalify-localize", "::mlir::ModuleOp"> {
  let summary = "convert a partitioned program to the program of one device";
  let description = [{
    Before: one function on whole values, without calls. Every value has an
    `sdy.sharding` or is whole on every device, ops read values as they need
    them, and sdy collectives stand where a sharding changes: what Shardy's
    partitioner leaves before its own last pass.

    After: the same ops on one device's parts, with stablehlo collectives over
    groups of devices in the order of the mesh. Where a part depends on the
    device, it is looked up by `stablehlo.partition_id`. Arguments and results
    keep their `sdy.sharding`, and have their whole shape in
    `scalify.whole_type`; `scalify.parts` says which device has which part: for
    each dimension pairs (stride, size), where a device's place is the number
    with digits device / stride mod size.

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
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::sdy::SdyDialect"];
}

def ShardBatchPass : Pass<"scalify-shard-batch", "::mlir::ModuleOp"> {
  let summary = "shard the batch of an unsharded step over ranks";
  let description = [{
    Before: a step without a mesh, whose arguments have roles. After: a mesh of
    one axis, `data`; of each argument with the role `batch` a rank has rows,
    of all other arguments and of results the whole. Rows are the first
    dimension, or, of a batch that a loop takes apart, that behind micro-batches.
    Batches with rows that the ranks do not divide, or of other numbers, and
    programs with shardings are errors.

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
                        "how many ranks; of one nothing changes">];
}

def HideMarksPass : Pass<"scalify-hide-marks", "::mlir::ModuleOp"> {
  let summary = "encode scale hints as optimization_barrier during partitioning";
  let description = [{
    Before: a program with `scalify.data_scale`, `scalify.override_scale` and
    `scalify.rescale_point`. After: in their places barriers of the same values,
    through which shardings go, with what they stand for in `scalify.mark`. Of
    the first one, which has no scale to give before there is any, the scale is
    1. `scalify-restore-marks` is the way back.

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
    Before: barriers of `scalify-hide-marks`, of whole values or of parts. After:
    the ops that they stand for, of the same values. A scale is that of a
    device's part, where the step measures it.

    ```mlir
    %y = stablehlo.optimization_barrier {scalify.mark = {attrs = {statistic = #scalify<statistic max>}, name = "scalify.rescale_point"}} %x : tensor<2xf32>
    // becomes
    %y = scalify.rescale_point max %x : tensor<2xf32>
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect"];
}

def BucketCollectivesPass
    : Pass<"scalify-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "bucket collectives in order of readiness";
  let description = [{
    Before: a device's program. After: gathers, exchanges and reduce-scatters of
    arrays of rank 1, and all-reduces, that are alike but for their sizes go in
    buckets of up to `bytes` of what a rank gives, with the same values. A rank's
    share of a bucket is its shares of the arrays one behind the other. What can
    be sent when the step starts goes in the order of the program, a bucket of a
    quarter of the size first; what is made in the step goes when the last array
    of its bucket is there, and the last bucket is of a quarter. With `by-chunk`
    what stage borders keep apart is in different buckets, first and last ones
    included.

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
           "of a bucket; 0: none are made">,
    Option<"byChunk", "by-chunk", "bool", "false",
           "a bucket has arrays of one chunk of a pipeline">
  ];
  let statistics = [
    Statistic<"numBuckets", "buckets", "buckets">,
    Statistic<"numBucketed", "bucketed", "collectives that are in one">
  ];
}

def SumBehindLoopsPass
    : Pass<"scalify-sum-behind-loops", "::mlir::ModuleOp"> {
  let summary = "sink all-reduces of accumulators out of loops";
  let description = [{
    Before: what `scalify-localize` makes. After: sums over ranks of what a loop
    adds to a carry, as gradients of micro-batches, or writes into a stack, as
    gradients of scanned layers, stand behind the loop, where the carry starts
    from zero and nothing else reads them. Of stacks no bit changes. What
    micro-batches add up is summed per rank first, and then over ranks.

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
           "also stacks of loops that are in no other loop">
  ];
  let statistics = [Statistic<"numMoved", "moved", "sums that left a loop">];
}

def SimulateRanksPass : Pass<"scalify-simulate-ranks", "::mlir::ModuleOp"> {
  let summary = "simulate all ranks of a mesh in one process";
  let description = [{
    Before: `@main` on one device's parts, with stablehlo collectives, as
    `--scalify-localize` leaves it; ops of other dialects, as Precision adds
    them, and arguments without a sharding, which are whole on every rank.

    After: `@main` on whole values, which names no mesh, no device and no
    collective. Each rank reads its parts of the arguments, and every op stands
    once for each rank, or once for all ranks that read the same values.
    A collective is what it does to the ranks' values: a sum goes from the first
    member of a group to the last, in F32 where the numbers are narrower, and
    is rounded once. Results are put together from their parts; of what several
    ranks have the first one gives it.

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

    Ranks go through loops and branches side by side. A condition that is not
    seen to be the same on all of them is an error, and so is a result that
    differs between ranks without a sharding.
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
    Before: what `scalify-localize` makes, with roles and donation. After: of
    donated state that is updated element by element from a sum over ranks, each
    of these ranks keeps and updates a share. A share has as many elements on
    every rank: all elements in a row, filled up with zeros, in equal pieces of
    whole chunks (`scalify.flat` on arguments and results says of what).

    The sum becomes a reduce-scatter. Sums of all elements, as the norm of the
    gradients, are sums of shares by chunks, whose size depends on the number of
    elements alone: their bits do not depend on how many ranks there are.

    Levels 1 and 2 keep moments in shares, and parameters are gathered behind
    their update (gradients are in shares too: a step has no place where they
    would be kept whole). Level 3 keeps parameters in shares, and gathers them
    at the start of the step. What stays whole is said in a remark.

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
                        "of ZeRO: 1 and 2 moments, 3 also parameters">];
}

def ScatterInLoopsPass
    : Pass<"scalify-scatter-in-loops", "::mlir::ModuleOp"> {
  let summary = "move reduce-scatter into the accumulation loop";
  let description = [{
    Before: what `scalify-shard-state` makes. After: a reduce-scatter of what a
    loop adds up from zeros, as gradients of micro-batches, stands in the loop,
    which adds up shares: less memory by the number of ranks, and as many times
    the bytes as the loop has iterations. One that something else reads whole
    stays behind the loop.

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
  let statistics = [Statistic<"numMoved", "moved", "sums that went into a loop">];
}

def SliceCollectivesPass
    : Pass<"scalify-slice-collectives", "::mlir::ModuleOp"> {
  let summary = "split collectives of stacked layers into one for each layer";
  let description = [{
    Before: a device's program, where `scalify-shard-state` cuts stacks slice by
    slice: their collectives are along the second dimension. After: of a
    reduce-scatter or all-reduce of what a loop writes slice by slice each slice
    is summed by itself, with the same bits, all arrays of a layer one after the
    other, in the order in which the loop makes layers. With `gathers`, instead,
    each slice that loops read is gathered by itself. So the first layer's sum
    needs no other layer, and loops over layers overlap with what they exchange
    once they are unrolled. Others, as of gradients whose scale is measured of
    the whole stack, become collectives of all elements in a row.

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
                        "slice gathers in place of sums">];
  let statistics = [Statistic<"numSliced", "sliced", "collectives of stacks">];
}

def NarrowCollectivesPass
    : Pass<"scalify-narrow-collectives", "::mlir::ModuleOp"> {
  let summary = "narrow collectives whose values are narrow anyway";
  let description = [{
    Before: `@main` on one device's parts, with the casts of Precision. After:
    the same values, to the bit, by collectives on narrow data where

    - all that read what is gathered, exchanged or sent cast it alike: each rank
      casts what it has before, and where the cast of what is gathered rounds
      stochastically, by the words of its elements' places in the whole;
    - what is gathered, exchanged or sent was narrow: it becomes wide behind;
    - what is summed was narrow: each rank gets all ranks' narrow data of its
      part (all-to-all), and sums it in F32 in the order of ranks. An all-reduce
      is that, and an all-gather of the sums.

    The largest magnitude of what is gathered is taken of the shares, and then
    over ranks, so that scales which follow from it are known before; those of
    arguments by one message.

    The scale has to be seen to be the same on all ranks of a group: a constant,
    of whole arguments, or of what these ranks have reduced or gathered. What
    stays wide though it is narrow on one side is said in a remark.

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
                              "collectives that became narrow">];
}

def OrderSumsPass : Pass<"scalify-order-sums", "::mlir::ModuleOp"> {
  let summary = "order sums over ranks by rank";
  let description = [{
    Before: a device's program. After: no sum or product of floats is joined by
    the transport. Each rank gets all ranks' data of a piece (all-to-all), and
    joins them in the order of the group, in F32 where they are narrower, rounded
    once: the bits of one process, and of ranks whose transport joins so itself.
    An all-reduce is that, and an all-gather of the sums. Where all ranks' data
    together have at most `gather-bytes`, each rank gathers and joins them all,
    which is one message and not two. Maxima, minima and integers, which have the
    same bits in any order, stay the transport's.

    What joins has `scalify.in_order`: it is a kernel of its own, by which the
    parts are joined as soon as they are there, and never by lanes.

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
                        "of all ranks together, up to which all are gathered">];
  let statistics = [Statistic<"numOrdered", "ordered", "sums">];
}

def LimitRescale : Pass<"scalify-limit-rescale", "::mlir::ModuleOp"> {
  let summary = "update the limits of @rescale to the elements that casts count after distribution";
  let description = [{
    Before: the program of `scalify-adapt-scales`, whose casts were moved or
    copied since. After: the limits of `@rescale` are of the elements that main
    casts under each name; of the program of one rank, on all ranks, whose
    counts are then added. A cast that is gone moves nothing. Does nothing
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
