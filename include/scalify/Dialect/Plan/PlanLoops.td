//===- PlanLoops.td - Loops of a plan ----------------------*- tablegen -*-===//

#ifndef SCALIFY_DIALECT_PLAN_LOOPS
#define SCALIFY_DIALECT_PLAN_LOOPS

def LoopOp : Plan_Op<"loop", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "run another program of the module again and again";
  let description = [{
    The callee's arguments are the carries, then the reads. Its results are the
    next carries, each in the memory of its argument: an iteration overwrites
    the carries. With `trips` there are as many iterations; with `while`, the
    carry of that index is one i1, and an iteration runs as long as it is true.
    The callee's temporaries are in `arena`.

    `slices` has four numbers for each operand that is passed by slice: its
    index among carries and reads, and in bytes the place of the slice in the
    first iteration, its step from one iteration to the next, and its last
    place. Iteration i gets the memory at start + i * step, moved to between 0
    and the last place.

    Commands of the callee may be on several streams: these start and end within
    an iteration. The loop itself is on the first stream.

    ```mlir
    plan.loop @loop0 carries(%i, %sum : memref<i32>, memref<8xf32>)
        reads(%x : memref<64x8xf32>) arena(%a : memref<256xi8>) trips 64
        slices [2, 0, 32, 2016]
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Plan_Buffer>:$carries,
    Variadic<Plan_Buffer>:$reads, Optional<Plan_Buffer>:$arena,
    OptionalAttr<I64Attr>:$trips, OptionalAttr<I64Attr>:$condition,
    OptionalAttr<DenseI64ArrayAttr>:$slices);
  let assemblyFormat = [{
    $callee `carries` `(` $carries `:` type($carries) `)`
    (`reads` `(` $reads^ `:` type($reads) `)`)?
    (`arena` `(` $arena^ `:` type($arena) `)`)?
    (`trips` $trips^)? (`while` $condition^)? (`slices` $slices^)? attr-dict
  }];
  let hasVerifier = 1;
}

def IterateOp : Plan_Op<"iterate", [Pure, AttrSizedOperandSegments]> {
  let summary = "run a loop on tensors, before buffers exist";
  let description = [{
    `scalify-outline-loops` forms it from a `stablehlo.while`, whose body is the
    function `callee`: from carries and reads to the next carries. The results
    are the carries after the last iteration. Of an operand with a slice, as
    `plan.loop` has them, the function takes the slice, and returns its new
    value.

    ```mlir
    %r:2 = plan.iterate @loop0 carries(%i, %sum) reads(%x) trips 64
        : (tensor<i32>, tensor<8xf32>, tensor<64x8xf32>) -> (tensor<i32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
    Variadic<AnyRankedTensor>:$carries, Variadic<AnyRankedTensor>:$reads,
    OptionalAttr<I64Attr>:$trips, OptionalAttr<I64Attr>:$condition,
    OptionalAttr<DenseI64ArrayAttr>:$slices);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee `carries` `(` $carries `)` (`reads` `(` $reads^ `)`)?
    (`trips` $trips^)? (`while` $condition^)? (`slices` $slices^)? attr-dict `:`
    functional-type(operands, $results)
  }];
  let hasVerifier = 1;
}

def UndefinedOp : Plan_Op<"undefined", [Pure]> {
  let summary = "make a tensor of any elements, before buffers exist";
  let description = [{
    A loop that writes a stack slice by slice begins with it: what the memory
    holds before is not read. No other op reads it.
  }];
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif // SCALIFY_DIALECT_PLAN_LOOPS
