//===- ExpandPasses.td - Passes that expand ops ------------*- tablegen -*-===//
//
// The fusion stage's passes that expand ops that no kernel computes into ops
// that kernels and GEMMs compute.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_FUSION_EXPANDPASSES
#define SCALIFY_FUSION_EXPANDPASSES

include "mlir/Pass/PassBase.td"

def ExpandConvolutions
    : Pass<"scalify-expand-convolutions", "::mlir::func::FuncOp"> {
  let summary = "expand convolutions into dots of windows and kernels";
  let description = [{
    Before: StableHLO of static shapes. After: no `stablehlo.convolution`; a
    `dot_general` multiplies the input's windows (`plan.windows`, padded at the
    edges), in the order in which the kernel lies in memory, by the kernel.
    Groups are batch dimensions of the dot; with one output feature per group,
    as in a depthwise convolution, elementwise products are reduced instead.
    Gradients of inputs and kernels are convolutions themselves and need no case
    of their own.

    ```mlir
    %y = stablehlo.convolution(%x, %k)
        dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
        : (tensor<2x10x3xf32>, tensor<4x3x5xf32>) -> tensor<2x7x5xf32>
    // becomes
    %w = plan.windows %x dims [1] sizes [4] strides [1] dilations [1]
        : tensor<2x10x3xf32> -> tensor<2x7x3x4xf32>
    %t = stablehlo.transpose %w, dims = [0, 1, 3, 2] : ...
    %y = stablehlo.dot_general %t, %k, contracting_dims = [2, 3] x [0, 1] : ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numConvolutions", "convolutions", "convolutions replaced">];
}

def ExpandWindows : Pass<"scalify-expand-windows", "::mlir::func::FuncOp"> {
  let summary = "expand window reductions and their gradients into reductions";
  let description = [{
    Before: StableHLO of static shapes. After: no `reduce_window` and no
    `select_and_scatter`. A reduction over windows becomes a reduction over the
    positions inside them (`plan.windows`); a cumulative sum, maximum or the
    like of more than 32 elements combines neighbours at distances 1, 2, 4 and
    so on. For the gradient of a maximum, each window computes the position that
    it selects, and each element sums the source elements of the windows that
    select it. A scatter by anything but a sum is an error.

    ```mlir
    %m = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 1, 2>,
        window_strides = array<i64: 1, 2>}> ({ max }) : (tensor<4x8xf32>, ...) -> tensor<4x4xf32>
    // becomes
    %w = plan.windows %x dims [1] sizes [2] strides [2] dilations [1]
        : tensor<4x8xf32> -> tensor<4x4x2xf32>
    %m = stablehlo.reduce(%w init: %init) applies stablehlo.maximum across dimensions = [2] : ...
    ```
  }];
  let dependentDialects = ["::scalify::plan::PlanDialect",
                           "::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numWindows", "windows", "reductions and scatters replaced">];
}

def ExpandFourier : Pass<"scalify-expand-fourier", "::mlir::func::FuncOp"> {
  let summary = "expand Fourier transforms into products with roots of unity";
  let description = [{
    Before: `stablehlo.fft` between `stablehlo.complex` and `stablehlo.real` or
    `imag`. After: dots with constant matrices, on the real and the imaginary
    part. A length above 128 is split at the factor next to its root: transforms
    of columns, products with roots of unity, transforms of rows. A length with
    a prime factor above 1,024 stays.

    It follows Precision, so that no recipe casts these dots.

    ```mlir
    %f = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<2x4xf32>) -> tensor<2x3xcomplex<f32>>
    %r = stablehlo.real %f : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    // becomes
    %r = stablehlo.dot_general %x, %cosines, contracting_dims = [1] x [0]
        : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "transforms replaced">];
}

def ExpandSorts : Pass<"scalify-expand-sorts", "::mlir::func::FuncOp"> {
  let summary = "expand sorts into elementwise ops and sums";
  let description = [{
    Before: StableHLO of static shapes. After: no `stablehlo.sort`; every sort
    is stable. In rows of up to 64 elements, each element counts those that
    precede it, by the comparator and then by position, and each position takes
    the element with that count. Longer rows, padded to a power of two, go
    through a bitonic network; each step compares elements at one distance. A
    comparator that cannot be applied to all elements at once is an error.

    ```mlir
    %s = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({ LT }) : (tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %before = ... compare LT of tensor<4x4xf32> ...
    %rank = stablehlo.reduce(...) applies stablehlo.add across dimensions = [1] : ... -> tensor<4xi32>
    %here = ... compare EQ of %rank and an iota ...
    %s = stablehlo.reduce(...) applies stablehlo.or across dimensions = [1] : ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [Statistic<"numSorts", "sorts", "sorts replaced">];
}

def ExpandBits : Pass<"scalify-expand-bits", "::mlir::func::FuncOp"> {
  let summary = "expand random bit generators and bitcasts between widths";
  let description = [{
    Before: StableHLO of static shapes. After: no `rng_bit_generator`, and no
    `bitcast_convert` between widths: shifts split or combine the elements.
    THREE_FRY is Threefry-2x32 with 20 rounds, PHILOX and DEFAULT are
    Philox-4x32 with 10, bit-identical to XLA on a CPU. The state must be `ui64`
    of two words, or of three for PHILOX.

    ```mlir
    %next, %bits = stablehlo.rng_bit_generator %state, algorithm = PHILOX
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui32>)
    // becomes
    %place = (%state[1] + iota) : tensor<2xui64>
    ... 10 rounds of multiply and xor on tensor<2xui32> ...
    %words = stablehlo.concatenate %a, %b, %c, %d, dim = 1 : ... -> tensor<2x4xui32>
    %bits = (%words reshaped)[0:7] : tensor<7xui32>
    %next = (%state[0], %state[1] + 2) : tensor<2xui64>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "generators and bitcasts replaced">];
}

def SplitScatters : Pass<"scalify-split-scatters", "::mlir::func::FuncOp"> {
  let summary = "split scatters into several inputs";
  let description = [{
    Before: StableHLO. After: no scatter has more than one input, since a kernel
    scatters into the memory of one. Results that read only their own input and
    update are scatters of their own. If they read others, as the position of a
    largest value does, a loop applies the elements of the updates one after
    another; an element whose window is not inside changes nothing, as in a
    scatter.

    ```mlir
    %r:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{...}> ({ (add, maximum) })
    // becomes
    %r0 = "stablehlo.scatter"(%a, %i, %u) <{...}> ({ add })
    %r1 = "stablehlo.scatter"(%b, %i, %v) <{...}> ({ maximum })
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numSplit", "split", "scatters into several inputs replaced">];
}

def ExpandScatters : Pass<"scalify-expand-scatters", "::mlir::func::FuncOp"> {
  let summary = "expand scatters of one element per row into selects";
  let description = [{
    Before: StableHLO without loops. After: no scatter that adds one element to
    each row of a constant; a comparison of positions computes the same bits,
    inside the kernel that reads the result. So the gradient of a cross entropy
    by labels needs no zeros of the logits' size. An index outside its row
    selects no position, as before. Other scatters stay: onto values that are
    not constant, of several elements per row, of windows.

    ```mlir
    %r = "stablehlo.scatter"(%zeros, %label, %g) <{... input_batching_dims = [0], ...}> ({ ... add ... })
        : (tensor<4x512xf32>, tensor<4x1x1xi32>, tensor<4x1xf32>) -> tensor<4x512xf32>
    // becomes
    %p = stablehlo.iota dim = 1 : tensor<4x512xi32>
    %w = stablehlo.broadcast_in_dim %label, dims = [0] : ...
    %is = stablehlo.compare EQ, %p, %w : ...
    %s = stablehlo.add %zeros, (%g broadcast) : tensor<4x512xf32>
    %r = stablehlo.select %is, %s, %zeros : ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "scatters replaced by selects">];
}

def ExpandRaggedDots
    : Pass<"scalify-expand-ragged-dots", "::mlir::func::FuncOp"> {
  let summary = "expand ragged dots into batched products of tiles";
  let description = [{
    Before: `chlo.ragged_dot` of rows times the matrix of their group, or of
    sums over each group's rows. After: rows are gathered into tiles of equally
    many rows of one group, in a fixed number of tiles, and a batched dot
    multiplies these: a device computes about the products of the rows, and not
    of all rows with all matrices. Rows after those of the last group become 0,
    and those that fill up a tile never reach a result. With batching dimensions
    the op stays.

    ```mlir
    %y = "chlo.ragged_dot"(%x, %w, %sizes) ...
        : (tensor<64x4xf32>, tensor<3x4x5xf32>, tensor<3xi32>) -> tensor<64x5xf32>
    // becomes
    %rows = "stablehlo.gather"(%x, %places) ... -> tensor<4x32x4xf32>
    %matrices = "stablehlo.gather"(%w, %groups) ... -> tensor<4x4x5xf32>
    %p = stablehlo.dot_general %rows, %matrices, batching_dims = [0] x [0], ...
        : ... -> tensor<4x32x5xf32>
    %y = "stablehlo.gather"(%p, ...) ... -> tensor<64x5xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "ragged dots replaced">];
}

def ExpandBlocks : Pass<"scalify-expand-blocks", "::mlir::ModuleOp"> {
  let summary = "expand block-scaled casts into casts of scaled values";
  let description = [{
    Before: `scalify.quantize` and `scalify.dequantize` with `block`. After:
    each is an elementwise product with the blocks' scales, or their inverses,
    broadcast over the tensor, and a cast by 1, marked `scalify.scaled` because
    its own scale carries no information. Scales are powers of two, so the bits
    are the same. Users of a dequantize then read a product, so dots on blocks
    are F32 dots in every form of StableHLO out.

    ```mlir
    %q = scalify.quantize %x, %s by tensor<4x2xf32> {block = array<i64: 1, 128>} : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
    // becomes
    %0 = stablehlo.divide %ones, %s : tensor<4x2xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<4x2xf32>) -> tensor<4x2x128xf32>
    %2 = stablehlo.reshape %1 : (tensor<4x2x128xf32>) -> tensor<4x256xf32>
    %3 = stablehlo.multiply %x, %2 : tensor<4x256xf32>
    %q = scalify.quantize %3, %one {scalify.scaled} : tensor<4x256xf32> -> tensor<4x256xf8E4M3FN>
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
  let options = [
    Option<"keepDequantized", "keep-dequantized", "bool", "false",
           "keep `scalify.dequantize`: GPU GEMMs read data and scales">];
}

def ExpandRounding : Pass<"scalify-expand-rounding", "::mlir::ModuleOp"> {
  let summary = "expand stochastic rounding into integer arithmetic";
  let description = [{
    Before: `scalify.quantize` with `rounding = stochastic` and a counter.
    After: a `scalify.random_bits` and elementwise ops on the F32 bits round the
    value to the format's grid, and a cast to nearest converts it exactly. A
    value that the rounding flushes to zero reaches the cast as a quarter of the
    format's smallest number, so that the cast still counts the flush. A cast
    without a counter rounds to nearest.

    ```mlir
    %q = scalify.quantize %x, %s at %step {rounding = #scalify.rounding<stochastic>, stream = 6 : i64} : tensor<4x8xf32> -> tensor<4x8xbf16>
    // becomes, except for signs and NaN,
    %0 = stablehlo.bitcast_convert %x : (tensor<4x8xf32>) -> tensor<4x8xi32>
    %1 = scalify.random_bits 0 of %step, %three : tensor<4x8xi32>
    %2 = stablehlo.shift_right_logical %1, %sixteen : tensor<4x8xi32>
    %3 = stablehlo.add %0, %2 : tensor<4x8xi32>
    %4 = stablehlo.and %3, %high : tensor<4x8xi32>
    %5 = stablehlo.bitcast_convert %4 : (tensor<4x8xi32>) -> tensor<4x8xf32>
    %q = scalify.quantize %5, %s : tensor<4x8xf32> -> tensor<4x8xbf16>
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect",
                           "::scalify::stablehlo::StableHLODialect"];
}

def ExpandUpdates : Pass<"scalify-expand-updates", "::mlir::func::FuncOp"> {
  let summary = "expand in-place updates of slices into scatters";
  let description = [{
    For CPUs. Before: StableHLO of static shapes. After: a
    `dynamic_update_slice` of a donated argument, or a chain of them, whose last
    result takes that argument's memory, is a `stablehlo.scatter` of one window.
    It stores the update alone. Carries of a loop are donated arguments of its
    function.

    ```mlir
    func.func @loop0(%s: tensor<64x2x8xf32> {tf.aliasing_output = 0 : i32}, ...)
    %t = stablehlo.dynamic_update_slice %s, %y, %i, %c0, %c0
        : (tensor<64x2x8xf32>, tensor<1x2x8xf32>, ...) -> tensor<64x2x8xf32>
    // becomes
    %j = stablehlo.clamp %c0, %i, %c63 : tensor<i32>
    %t = "stablehlo.scatter"(%s, %j, %y) <{...}> ({ returns the update })
        : (tensor<64x2x8xf32>, tensor<1xi32>, tensor<1x2x8xf32>) -> tensor<64x2x8xf32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numExpanded", "expanded", "updates replaced">];
}

#endif // SCALIFY_FUSION_EXPANDPASSES
