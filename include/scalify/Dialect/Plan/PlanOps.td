//===- PlanOps.td - The plan dialect -----------------------*- tablegen -*-===//
//
// The last dialect before machine code, common to all targets: memory, and the
// commands that work on it in order.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_PLAN_OPS
#define SCALIFY_DIALECT_PLAN_OPS

include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::scalify::plan";
  let summary = "Buffers, kernels, GEMMs and copies: a step as a list of commands";
  let description = [{
    A `plan.program` holds buffer ops, which name memory, and commands, which
    run in order. Buffers are memrefs of static shape and identity layout. A
    reshape is no command, since only the number of elements matters. The body
    of a kernel is a small graph of StableHLO ops on tensors. It specifies what
    to compute but not how, so that each target chooses its own loops.

    Passes leave decisions on ops and commands as discardable attributes
    (PlanAttrs.h), which the dialect verifies.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

def Plan_Buffer : Type<CPred<"::scalify::plan::isBufferType($_self)">,
    "a memref of static shape, identity layout, and integers or floats of less "
    "than 2^63 bytes", "::mlir::MemRefType">;

def Plan_Scaling : I32EnumAttr<"Scaling",
    "which elements of an FP8 operand share a scale", [
      I32EnumAttrCase<"Tensor", 0, "tensor">,
      I32EnumAttrCase<"Rows", 1, "rows">,
      I32EnumAttrCase<"Vectors", 2, "vectors">,
      I32EnumAttrCase<"Blocks", 3, "blocks">]> {
  let cppNamespace = "::scalify::plan";
}

def Plan_Epilogue : I32EnumAttr<"Epilogue",
    "operation of a GEMM on its sums before it stores them", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Bias", 1, "bias">,
      I32EnumAttrCase<"ReLU", 2, "relu">,
      I32EnumAttrCase<"BiasReLU", 3, "bias_relu">,
      I32EnumAttrCase<"GELU", 4, "gelu">,
      I32EnumAttrCase<"BiasGELU", 5, "bias_gelu">,
      I32EnumAttrCase<"ReLUGrad", 6, "relu_grad">,
      I32EnumAttrCase<"GELUGrad", 7, "gelu_grad">]> {
  let cppNamespace = "::scalify::plan";
}

def Plan_CollectiveKind : I32EnumAttr<"CollectiveKind",
    "exchange of memory between the ranks of a group", [
      I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
      I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
      I32EnumAttrCase<"AllGather", 2, "all_gather">,
      I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
      I32EnumAttrCase<"Permute", 4, "permute">,
      I32EnumAttrCase<"Broadcast", 5, "broadcast">]> {
  let cppNamespace = "::scalify::plan";
}

def Plan_Join : I32EnumAttr<"Join", "reduction of elements across ranks", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Sum", 1, "sum">,
      I32EnumAttrCase<"Product", 2, "product">,
      I32EnumAttrCase<"Max", 3, "max">,
      I32EnumAttrCase<"Min", 4, "min">,
      I32EnumAttrCase<"And", 5, "and">,
      I32EnumAttrCase<"Or", 6, "or">]> {
  let cppNamespace = "::scalify::plan";
}

//===----------------------------------------------------------------------===//
// Program and buffers
//===----------------------------------------------------------------------===//

def ProgramOp : Plan_Op<"program", [
    IsolatedFromAbove, Symbol, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "hold one step: buffers and the commands on them, in order";
  let description = [{
    `scalify-assign-buffers` sets `arena_bytes` and the offsets of the
    `plan.temp` ops together. From then on the verifier proves that two
    temporaries that live at the same time do not share a byte. `tile_bytes` are
    those of a thread, for commands that run tile by tile.

    ```mlir
    plan.program @step {
      %0 = plan.argument 0 : memref<4xf32>
      %1 = plan.result 0 : memref<4xf32>
      plan.kernel "add" reads(%0 : memref<4xf32>) writes(%1 : memref<4xf32>) {
      ^bb0(%x: tensor<4xf32>):
        %y = stablehlo.add %x, %x : tensor<4xf32>
        plan.yield %y : tensor<4xf32>
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       OptionalAttr<I64Attr>:$arena_bytes,
                       OptionalAttr<I64Attr>:$tile_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

class Plan_BufferOp<string mnemonic> : Plan_Op<mnemonic> {
  let results = (outs Plan_Buffer:$memory);
}

def ArgumentOp : Plan_BufferOp<"argument"> {
  let summary = "name the memory of an argument, or of a part of it";
  let description = [{
    With the attribute `plan.offset` it is the part that starts at that byte.

    ```mlir
    %stack = plan.argument 0 : memref<2x16xf32>
    %1 = plan.argument 0 {plan.offset = 64 : i64} : memref<16xf32>
    ```
  }];
  let arguments = (ins I64Attr:$index);
  let assemblyFormat = "$index attr-dict `:` type($memory)";
}

def ResultOp : Plan_BufferOp<"result"> {
  let summary = "name the memory of a result of the step";
  let description = [{
    With `alias_arg`, the memory is that argument's. The verifier proves that no
    command reads the argument, or a part of it, after the first write, and that
    the writing kernel reads it only in place.
  }];
  let arguments = (ins I64Attr:$index, OptionalAttr<I64Attr>:$alias_arg);
  let assemblyFormat = [{
    $index (`aliases` $alias_arg^)? attr-dict `:` type($memory)
  }];
}

def TempOp : Plan_BufferOp<"temp"> {
  let summary = "name memory of the arena, live from first to last command";
  let description = [{
    With `whole`, the memory is a part of that temporary, from byte `start` on.
    A write to the part is a write to the whole, which lives from the first
    command on any of its parts. `offset` is from the start of the arena, for
    parts too.

    With `tiles`, it is memory of each thread that holds one of as many tiles,
    for commands that run tile by tile (docs/stages/fusion.md). `offset` is from
    the start of the thread's memory.

    ```mlir
    %stack = plan.temp at 128 : memref<2x16xf32>
    %1 = plan.temp at 192 part of %stack : memref<2x16xf32> from 64 : memref<16xf32>
    %2 = plan.temp tile of 64 at 0 : memref<64x256x256xf32>
    ```
  }];
  let arguments = (ins Optional<Plan_Buffer>:$whole,
                       OptionalAttr<I64Attr>:$start,
                       OptionalAttr<I64Attr>:$offset,
                       OptionalAttr<I64Attr>:$tiles);
  let assemblyFormat = [{
    (`tile` `of` $tiles^)? (`at` $offset^)? (`part` `of` $whole^ `:` type($whole) `from` $start)?
    attr-dict `:` type($memory)
  }];
  let hasVerifier = 1;
}

def ConstantOp : Plan_BufferOp<"constant"> {
  let summary = "name read-only memory known at compile time";
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict `:` type($memory)";
}

def RankOp : Plan_BufferOp<"rank"> {
  let summary = "name read-only memory that holds the number of the rank";
  let description = [{
    ```mlir
    %rank = plan.rank : memref<ui32>
    ```
  }];
  let assemblyFormat = "attr-dict `:` type($memory)";
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

def KernelOp : Plan_Op<"kernel", [
    IsolatedFromAbove, AttrSizedOperandSegments,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "compute the written buffers from the read ones";
  let description = [{
    The block's arguments are the read buffers as tensors, in order. The yielded
    tensors are stored to the written buffers, in order. A written buffer may
    share memory with a read buffer only if `inplace` lists the pair (index of
    the write, index of the read).

    `scalify-lower-kernels` sets `function`, `rows` and `grain`: the function
    that computes rows [lo, hi), and how tasks may split the rows.
  }];
  let arguments = (ins StrAttr:$name, Variadic<Plan_Buffer>:$reads,
                       Variadic<Plan_Buffer>:$writes,
                       OptionalAttr<DenseI64ArrayAttr>:$inplace,
                       OptionalAttr<FlatSymbolRefAttr>:$function,
                       OptionalAttr<I64Attr>:$rows,
                       OptionalAttr<I64Attr>:$grain);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name (`reads` `(` $reads^ `:` type($reads) `)`)?
    `writes` `(` $writes `:` type($writes) `)` attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def YieldOp : Plan_Op<"yield", [
    Pure, ReturnLike, Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "yield the tensors that a kernel stores";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def GemmOp : Plan_Op<"gemm", [AttrSizedOperandSegments]> {
  let summary = "compute c = alpha * a b on strided matrices, by batch index";
  let description = [{
    Offsets and strides count elements. `batch` has the extents of the batch
    dimensions, and `batch_strides` three strides (of a, b, c) for each.

    FP8 operands have the reduction dimension innermost, and all other strides
    are multiples of 16 bytes, as Hopper requires. They may have two `scales`,
    of a and of b, F32 in memory, by which the data are multiplied.
    `fast_accumulation` sums in fewer bits. With `tf32`, F32 operands are
    rounded to 10 bits of mantissa; the sum is F32.

    `by` gives the number and the layout of the scales. `tensor`: one. `rows`:
    one for each of a's m rows, or b's n columns. `vectors`: one for each 128
    elements of a row along the reduction dimension, in memory [ceil(k / 128),
    m]. `blocks`: one for 128 rows x 128 elements, in memory [ceil(m / 128), l],
    where l is ceil(k / 128) rounded up to a multiple of 4. For b, n replaces m.
    Hopper's library multiplies `rows x rows`, and all pairs of `vectors` and
    `blocks` except `blocks x blocks`, without a batch.

    `epilogue` works on the F32 sums before they are rounded to the stored type,
    on a GPU only. `bias` adds a vector of n elements, from the fourth of the
    `offsets` on, to each row; `relu` replaces negative values by 0; `gelu` is
    GELU in its tanh form; `bias_relu` and `bias_gelu` add first. `relu_grad`
    and `gelu_grad` multiply by the gradient of ReLU or GELU. With an epilogue,
    rows of c are contiguous. A bias has the type of c; with FP8 operands it is
    F16 if c is, otherwise BF16.

    A GEMM of the forward stores `aux` for the gradient, and one of the backward
    reads it as `saved`. For a GELU it is the GELU's input, in the layout of c.
    For a ReLU, without a batch, it is one bit per element, in rows of multiples
    of 128 bits, in an order private to the library.

    With FP8 operands and without a batch, c may be FP8: the sums, multiplied by
    `into` (one F32 in memory) if present, rounded to nearest even and
    saturated. `aux` is then one F32, the largest magnitude before that scale.

    ```mlir
    plan.gemm "dot" %a, %b, %c m 4 n 8 k 16
        strides [16, 1] x [8, 1] -> [8, 1] : memref<64xf32>, ...
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$a, Plan_Buffer:$b,
    Plan_Buffer:$c, Variadic<Plan_Buffer>:$scales, Optional<Plan_Buffer>:$bias,
    Optional<Plan_Buffer>:$aux, Optional<Plan_Buffer>:$saved,
    Optional<Plan_Buffer>:$into, I64Attr:$m, I64Attr:$n, I64Attr:$k,
    DenseI64ArrayAttr:$a_strides, DenseI64ArrayAttr:$b_strides,
    DenseI64ArrayAttr:$c_strides, DenseI64ArrayAttr:$offsets,
    DenseI64ArrayAttr:$batch, DenseI64ArrayAttr:$batch_strides,
    F64Attr:$alpha, UnitAttr:$fast_accumulation, UnitAttr:$tf32,
    DefaultValuedAttr<Plan_Scaling, "::scalify::plan::Scaling::Tensor">:$a_scaling,
    DefaultValuedAttr<Plan_Scaling, "::scalify::plan::Scaling::Tensor">:$b_scaling,
    DefaultValuedAttr<Plan_Epilogue, "::scalify::plan::Epilogue::None">:$epilogue);
  let assemblyFormat = [{
    $name $a `,` $b `,` $c `m` $m `n` $n `k` $k
    `strides` $a_strides `x` $b_strides `to` $c_strides `offsets` $offsets
    `batch` $batch $batch_strides `alpha` $alpha
    (`scales` `(` $scales^ `:` type($scales) `)`)?
    (`by` $a_scaling^ `x` $b_scaling)?
    (`fast_accumulation` $fast_accumulation^)? (`tf32` $tf32^)?
    (`epilogue` $epilogue^)? (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`aux` `(` $aux^ `:` type($aux) `)`)?
    (`saved` `(` $saved^ `:` type($saved) `)`)?
    (`into` `(` $into^ `:` type($into) `)`)? attr-dict `:`
    type($a) `,` type($b) `,` type($c)
  }];
  let hasVerifier = 1;
}

def MatmulOp : Plan_Op<"matmul", [Pure, AttrSizedOperandSegments]> {
  let summary = "run a GEMM on tensors, before buffers exist";
  let description = [{
    `scalify-form-gemms` forms it from a `stablehlo.dot_general`. The operands
    are the tensors in memory, whatever their shape; the strides contain the
    transposes, slices and reshapes in between.
  }];
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b,
    Variadic<AnyRankedTensor>:$scales, Optional<AnyRankedTensor>:$bias,
    Optional<AnyRankedTensor>:$saved, Optional<AnyRankedTensor>:$into,
    I64Attr:$m, I64Attr:$n, I64Attr:$k,
    DenseI64ArrayAttr:$a_strides, DenseI64ArrayAttr:$b_strides,
    DenseI64ArrayAttr:$c_strides, DenseI64ArrayAttr:$offsets,
    DenseI64ArrayAttr:$batch, DenseI64ArrayAttr:$batch_strides,
    F64Attr:$alpha, UnitAttr:$fast_accumulation, UnitAttr:$tf32,
    DefaultValuedAttr<Plan_Scaling, "::scalify::plan::Scaling::Tensor">:$a_scaling,
    DefaultValuedAttr<Plan_Scaling, "::scalify::plan::Scaling::Tensor">:$b_scaling,
    DefaultValuedAttr<Plan_Epilogue, "::scalify::plan::Epilogue::None">:$epilogue);
  let results = (outs AnyRankedTensor:$c, Optional<AnyRankedTensor>:$aux);
  let assemblyFormat = [{
    $a `,` $b `m` $m `n` $n `k` $k
    `strides` $a_strides `x` $b_strides `to` $c_strides `offsets` $offsets
    `batch` $batch $batch_strides `alpha` $alpha
    (`scales` `(` $scales^ `)`)? (`by` $a_scaling^ `x` $b_scaling)?
    (`fast_accumulation` $fast_accumulation^)? (`tf32` $tf32^)?
    (`epilogue` $epilogue^)? (`bias` `(` $bias^ `)`)?
    (`saved` `(` $saved^ `)`)? (`into` `(` $into^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def WindowsOp : Plan_Op<"windows", [Pure]> {
  let summary = "index the windows of a tensor, before buffers exist";
  let description = [{
    `scalify-expand-windows` and `scalify-expand-convolutions` emit it as an
    operand of their reductions and products. For each dimension in `dims` the
    result has the windows' positions in place of the operand's elements; the
    positions inside a window are trailing dimensions. Only an index is
    computed: in a kernel the windows are never in memory.

    ```mlir
    // %w[i, j, k] = %x[i, 2 * j + 3 * k]
    %w = plan.windows %x dims [1] sizes [4] strides [2] dilations [3]
        : tensor<8x30xf32> -> tensor<8x11x4xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$dims,
    DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
    DenseI64ArrayAttr:$dilations);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $operand `dims` $dims `sizes` $sizes `strides` $strides
    `dilations` $dilations attr-dict `:` type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def AttentionOp : Plan_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "compute softmax(q k^T * scale) v or its gradients in 16 bits";
  let description = [{
    The computation of cuDNN's fused attention; the weights are never in memory.
    The forward reads q, k, v, and writes the result and its statistics: the
    log-sum-exp of each row of scores, F32 [batch, heads, queries]. With
    `gradient` it reads q, k, v, the result, the result's gradient and the
    statistics, and writes the gradients of q, k and v.

    `sizes` are batch, heads, key heads, queries, keys, channels: each run of
    heads / key heads query heads shares a key head. `windows` has, for each
    matrix but the statistics, the offset and the strides of batch, head and row
    in elements; channels are contiguous. With `causal` row i attends to keys 0
    to i.

    ```mlir
    plan.attention "attention" reads(%q, %k, %v : ...) writes(%o, %s : ...)
        sizes [1, 4, 2, 64, 64, 32] windows [0, 8192, 32, 128, ...] scale 0.125 causal
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<Plan_Buffer>:$reads,
    Variadic<Plan_Buffer>:$writes, DenseI64ArrayAttr:$sizes,
    DenseI64ArrayAttr:$windows, F64Attr:$scale, UnitAttr:$causal,
    UnitAttr:$gradient);
  let assemblyFormat = [{
    $name `reads` `(` $reads `:` type($reads) `)`
    `writes` `(` $writes `:` type($writes) `)`
    `sizes` $sizes `windows` $windows `scale` $scale (`causal` $causal^)?
    (`gradient` $gradient^)? attr-dict
  }];
  let hasVerifier = 1;
}

def AttendOp : Plan_Op<"attend", [Pure]> {
  let summary = "compute an attention on tensors, before buffers exist";
  let description = [{
    `scalify-form-attention` forms it from dots around a softmax. Operands are
    the tensors in memory, whatever their shape. Results are [batch, row, head,
    channel], statistics [batch, head, row].
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$operands,
    DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$windows, F64Attr:$scale,
    UnitAttr:$causal, UnitAttr:$gradient);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $operands `sizes` $sizes `windows` $windows `scale` $scale
    (`causal` $causal^)? (`gradient` $gradient^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def CollectiveOp : Plan_Op<"collective"> {
  let summary = "exchange memory between the ranks of a group";
  let description = [{
    Every rank of a group sends `source` and receives `destination`. Memory is
    dense: the destination of `all_gather`, the source of `reduce_scatter`, and
    both of `all_to_all` consist of as many equal, consecutive parts as the
    group has ranks, in the order in which the group lists them. Elements of
    several ranks are reduced in that order too; types narrower than F32 are
    summed in F32 and rounded once. `groups` has a row for each group. In a
    `broadcast` all ranks of a group receive the source of its first rank. For a
    `permute`, `groups` has rows (from, to), and a rank that receives nothing
    gets zeros.

    ```mlir
    plan.collective all_reduce sum %part to %whole groups dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
        : memref<4xf32>, memref<4xf32>
    ```
  }];
  let arguments = (ins Plan_CollectiveKind:$kind, Plan_Join:$join,
    Plan_Buffer:$source, Plan_Buffer:$destination, I64ElementsAttr:$groups);
  let assemblyFormat = [{
    $kind $join $source `to` $destination `groups` $groups attr-dict `:`
    type($source) `,` type($destination)
  }];
  let hasVerifier = 1;
}

def MessageOp : Plan_Op<"message"> {
  let summary = "send memory to another rank, or receive it";
  let description = [{
    Connects two stages of a pipeline, whose programs differ: one of them has
    the message with `to`, the other with `from`, of the same name and type.
    Between stages of several ranks it connects the ranks of the same position.
    Both block until the message is complete: `scalify-take-stage` proves that
    the messages of all stages match.

    ```mlir
    plan.message "F0.1 x" %x to 1 : memref<4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Plan_Buffer:$memory,
                       OptionalAttr<I64Attr>:$to, OptionalAttr<I64Attr>:$from);
  let assemblyFormat = [{
    $name $memory (`to` $to^)? (`from` $from^)? attr-dict `:` type($memory)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isSend() { return getTo().has_value(); }
    int64_t getPeer() { return isSend() ? *getTo() : *getFrom(); }
  }];
}

def CommunicateOp : Plan_Op<"communicate", [Pure]> {
  let summary = "run a collective on tensors, before buffers exist";
  let description = [{
    `scalify-form-collectives` forms it from StableHLO's collectives. It
    accesses memory as `plan.collective` does, whatever the shapes.
  }];
  let arguments = (ins Plan_CollectiveKind:$kind, Plan_Join:$join,
    AnyRankedTensor:$source, I64ElementsAttr:$groups);
  let results = (outs AnyRankedTensor:$destination);
  let assemblyFormat = [{
    $kind $join $source `groups` $groups attr-dict `:`
    functional-type(operands, results)
  }];
}

def HostCallOp : Plan_Op<"host_call", [AttrSizedOperandSegments]> {
  let summary = "call the process that runs the step, on buffers";
  let description = [{
    On a CPU only. `callback` is the number of a Python function that JAX
    traced, `program` is a module whose `@main` the process runs by XLA. `when`
    is one boolean in memory: if it is false, the call is skipped and its
    outputs are zero. `after` is the `done` of the previous call with effects,
    which orders the two; `done` is an i32 that the runtime sets to zero.

    ```mlir
    plan.host_call "io_callback" reads(%x : memref<3xf32>) writes(%y : memref<3xf32>)
        callback 0
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<Plan_Buffer>:$reads,
    Variadic<Plan_Buffer>:$writes, Optional<Plan_Buffer>:$when,
    Optional<Plan_Buffer>:$after, Optional<Plan_Buffer>:$done,
    OptionalAttr<I64Attr>:$callback, OptionalAttr<StrAttr>:$program);
  let assemblyFormat = [{
    $name (`reads` `(` $reads^ `:` type($reads) `)`)?
    (`writes` `(` $writes^ `:` type($writes) `)`)?
    (`when` $when^ `:` type($when))? (`after` $after^ `:` type($after))?
    (`done` $done^ `:` type($done))? (`callback` $callback^)?
    (`program` $program^)? attr-dict
  }];
}

def InvokeOp : Plan_Op<"invoke", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "call the process that runs the step, on tensors";
  let description = [{
    `scalify-form-host-calls` forms it from callbacks and from ops that the
    target lacks. With `effects` it is kept even if its results have no uses,
    and `scalify-order-host-calls` gives it `after` and one more result, an i32,
    which order such calls.

    ```mlir
    %y = plan.invoke "io_callback" %x callback 0 effects
        : (tensor<3xf32>) -> tensor<3xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<AnyRankedTensor>:$inputs,
    Optional<AnyRankedTensor>:$when, Optional<AnyRankedTensor>:$after,
    OptionalAttr<I64Attr>:$callback, OptionalAttr<StrAttr>:$program,
    UnitAttr:$has_effects);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = [{
    $name $inputs (`when` $when^)? (`after` $after^)? (`callback` $callback^)?
    (`program` $program^)? (`effects` $has_effects^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def CopyOp : Plan_Op<"copy"> {
  let summary = "copy all bytes of one buffer to another of equal size";
  let arguments = (ins Plan_Buffer:$source, Plan_Buffer:$destination);
  let assemblyFormat = [{
    $source `to` $destination attr-dict `:` type($source) `,`
    type($destination)
  }];
  let hasVerifier = 1;
}

def FillOp : Plan_Op<"fill"> {
  let summary = "set every byte of a buffer";
  let arguments = (ins Plan_Buffer:$destination, I64Attr:$byte);
  let assemblyFormat = "$destination `with` $byte attr-dict `:` type($destination)";
}

def RecordOp : Plan_Op<"record"> {
  let summary = "record an event: the stream's earlier commands are done";
  let description = [{
    A command runs on the stream in its attribute `plan.stream`, or on 0 without
    it. Commands of one stream run in order. The verifier of the program proves
    that no two commands that may run at the same time touch a byte that one of
    them writes. A machine without streams runs all commands in order.

    ```mlir
    plan.record 0 on 0
    plan.wait 0 on 1
    plan.gemm "gradient" ... {plan.stream = 1 : i64}
    ```
  }];
  let arguments = (ins I64Attr:$event, I64Attr:$stream);
  let assemblyFormat = "$event `on` $stream attr-dict";
}

def WaitOp : Plan_Op<"wait"> {
  let summary = "make a stream wait for an event";
  let arguments = (ins I64Attr:$event, I64Attr:$stream);
  let assemblyFormat = "$event `on` $stream attr-dict";
}

include "scalify/Dialect/Plan/PlanLoops.td"
include "scalify/Dialect/Plan/PlanLapack.td"

#endif // SCALIFY_DIALECT_PLAN_OPS
