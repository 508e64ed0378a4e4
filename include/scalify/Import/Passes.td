//===- Passes.td - Passes of the Import stage --------------*- tablegen -*-===//

#ifndef SCALIFY_IMPORT_PASSES
#define SCALIFY_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def CheckInputPass : Pass<"scalify-check-input", "::mlir::ModuleOp"> {
  let summary = "refuse attributes that only stages of the compiler set";
  let description = [{
    Before: any program. After: the same, whose attributes of `scalify` are
    those of a program before Import: a recipe, a target, phases, roles, names,
    scales and ranges of arguments, and what the passes that partition a program
    write. Others, and those of `plan`, are errors: a stage takes such an
    attribute for a decision that an earlier one has proved.

    ```mlir
    // error: 'stablehlo.dot' op has 'scalify.formats', which a stage of the
    // compiler decides; remove it
    %0 = stablehlo.dot %x, %w {scalify.formats = #scalify.formats<...>} : ...
    ```
  }];
}

def InlineCallsPass : Pass<"scalify-inline-calls", "::mlir::ModuleOp"> {
  let summary = "inline all calls into public functions";
  let description = [{
    Before: public functions that call private ones, also from inside regions.
    After: no `func.call` and no private functions. An inlined op's location is
    `callsite(callee at call)`, from which the stack of JAX names is read.

    ```mlir
    func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    becomes the body of `@relu` in place of the call. Recursive calls and calls
    of functions without a body are errors, and so are quantized types
    (`!quant.uniform`), tensors of more bytes than 63 bits can count, calls more
    than 512 deep in one another, and functions of more than `max-ops` ops once
    their calls are inlined. The one public function that no other uses is
    `@main`, whatever its name.
    A call of `ApproxTopK` (jax.lax.approx_max_k) becomes a stable sort by its
    comparator, and slices. The result is exact, which the approximation allows.
  }];
  let options = [Option<
      "maxOps", "max-ops", "int64_t", "1048576",
      "limit on the ops of a function: calls of functions that call others "
      "twice each are 2^n ops">];
  let statistics = [Statistic<"numInlined", "calls-inlined",
                              "calls replaced by the callee's body">];
}

def FlattenTuplesPass : Pass<"scalify-flatten-tuples", "::mlir::ModuleOp"> {
  let summary = "replace tuples by their elements";
  let description = [{
    Before: tuples as arguments and results of `@main`, of loops, branches and
    barriers. After: their elements, those of tuples within tuples too; no
    `stablehlo.tuple` and `stablehlo.get_tuple_element` but those of custom
    calls. An element is named by its tuple's name and its place. A donated
    tuple donates its elements.

    ```mlir
    func.func public @main(%x: tuple<tensor<4xf32>, tuple<tensor<i32>>>)
    // becomes, with "x" the argument's name
    func.func public @main(%0: tensor<4xf32> {scalify.name = "x[0]"},
                           %1: tensor<i32> {scalify.name = "x[1][0]"})
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def RefineShapesPass : Pass<"scalify-refine-shapes", "::mlir::ModuleOp"> {
  let summary = "make shapes static, given those of the arguments";
  let description = [{
    Before: values of dynamic shape, as `jax.export` writes them for symbolic
    dimensions; sizes computed by ops of stablehlo, arith, tensor and shape.
    After: static shapes, and constants in place of sizes; `shape_assertion`
    calls are checked and gone. `arg-shapes` has an entry `name=4x8` for every
    argument of dynamic shape, by its name or number. A missing shape, an
    assertion that does not hold, and a shape that depends on data are errors.

    ```mlir
    func.func public @main(%x: tensor<?x8xf32>) -> tensor<i32> {
      %0 = stablehlo.get_dimension_size %x, dim = 0
          : (tensor<?x8xf32>) -> tensor<i32>
    // becomes with arg-shapes=0=4x8
    func.func public @main(%x: tensor<4x8xf32>) -> tensor<i32> {
      %0 = stablehlo.constant dense<4> : tensor<i32>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let options = [
    ListOption<"argShapes", "arg-shapes", "std::string",
               "shapes of arguments, name=4x8">];
}

def SetTargetPass : Pass<"scalify-set-target", "::mlir::ModuleOp"> {
  let summary = "set the target of the module";
  let description = [{
    After: the module has `scalify.target`, from which later passes read the
    capabilities and costs of the device; a module for a CPU has none. An
    unknown target is an error.

    ```mlir
    module attributes {scalify.target = #scalify.target<"sm_90a">} {}
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_90a\"",
           "the name of a target">];
}

def CheckOpsPass : Pass<"scalify-check-ops", "::mlir::func::FuncOp"> {
  let summary = "refuse ops of dialects that the passes of Import do not know";
  let description = [{
    Before: a flat function with refined shapes. After: the same without dead
    ops of other dialects, as those that computed its sizes; one that is not
    dead is an error, unless it is a constant tensor, which folds read as sizes.
    The passes that follow know ops on tensors only.

    ```mlir
    %c = arith.constant 4 : index                // goes
    %0 = arith.negf %x : f32                     // error: is not a stablehlo op
    ```
  }];
}

def ImportCallbacksPass
    : Pass<"scalify-import-callbacks", "::mlir::ModuleOp"> {
  let summary = "replace tokens that order callbacks by scalars";
  let description = [{
    Before: `!stablehlo.token`s among the arguments and results of `@main`, of
    loops, branches and custom calls, as JAX writes them around ordered
    callbacks; calls are inlined. After: no tokens in `@main`'s signature, whose
    `tf.aliasing_output` is renumbered, and scalars of i32 instead of all other
    tokens. This relies on JAX's callbacks returning their token operand.

    ```mlir
    %t, %y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t0, %x)
        : (!stablehlo.token, tensor<3xf32>) -> (!stablehlo.token, tensor<3xf32>)
    ```
    becomes a call on `(tensor<i32>, tensor<3xf32>)`.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def ImportChecksPass : Pass<"scalify-import-checks", "::mlir::ModuleOp"> {
  let summary = "make checks of test programs results of main";
  let description = [{
    For artefacts. Before: `check` ops, or custom calls of their names, as test
    programs of the StableHLO project have; calls are inlined. After: a result
    of `@main` for each, the number of elements that are not as expected, named
    `check.<index>.<op>` by `jax.result_info`. A check inside a region is an
    error.

    ```mlir
    check.expect_eq %x, %y : tensor<4xi32>
    // becomes a result of @main
    %equal = stablehlo.compare EQ, %x, %y, SIGNED
        : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
    %fails = stablehlo.not %equal : tensor<4xi1>
    %ones = stablehlo.convert %fails : (tensor<4xi1>) -> tensor<4xi32>
    %count = stablehlo.reduce(%ones init: %zero) applies stablehlo.add ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def NormalizeShardingPass
    : Pass<"scalify-normalize-sharding", "::mlir::ModuleOp"> {
  let summary = "drop meshes of one device and their shardings";
  let description = [{
    Before: `sdy.mesh`, shardings of arguments and results, and constraints as
    JAX writes them, also for one device. After: shardings and constraints over
    one device and unused meshes are erased; those over several devices stay.

    ```mlir
    sdy.mesh @empty_mesh = <[]>
    %0 = sdy.sharding_constraint %x <@empty_mesh, []> : tensor<ui32>
    ```
    `%0` is replaced by `%x`.
  }];
}

def ExpandCHLOPass : Pass<"scalify-expand-chlo", "::mlir::ModuleOp"> {
  let summary = "expand chlo ops into stablehlo";
  let description = [{
    Before: chlo ops. After: stablehlo only. An op that broadcasts becomes
    broadcasts and the op without them. `chlo.top_k` becomes a stable sort
    that also sorts an iota of indices, and two slices; `chlo.square` becomes
    `stablehlo.multiply %x, %x`; `erf`, `erfc` and `erf_inv` become polynomials.
    These are computed in f64 for f64, else in f32, where erf is within 3 ulp,
    erfc within 12 ulp for |x| < 4 and then within x*x ulp of its ever smaller
    value, and erf_inv within 4 ulp. `next_after` is arithmetic on the bits of
    any float whose bits are in the order of its values, FP8 too.
    `chlo.ragged_dot` is part of the normal form and stays. Other ops without an
    expansion stay as well, and --scalify-validate-import reports them.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def ImportSignaturePass
    : Pass<"scalify-import-signature", "::mlir::ModuleOp"> {
  let summary = "store complex and narrow arguments and results in bytes";
  let description = [{
    For artefacts. Before: arguments and results of `@main` of any element type.
    After: those of complex numbers are real, with a last dimension of two (the
    parts), and those of integers below 8 bits are of 8 bits; each carries its
    element type as `scalify.element`, which the artefact names to the caller.

    ```mlir
    func.func public @main(%z: tensor<4xcomplex<f32>>) -> tensor<4xi4>
    // becomes
    func.func public @main(%z: tensor<4x2xf32> {scalify.element = complex<f32>})
        -> (tensor<4xi8> {scalify.element = i4})
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect",
                           "::scalify::ScalifyDialect"];
}

def WidenIntegersPass : Pass<"scalify-widen-integers", "::mlir::ModuleOp"> {
  let summary = "compute integers of 2 and 4 bits in bytes";
  let description = [{
    For artefacts. Before: integers of 2 and 4 bits anywhere but in the
    signature of `@main`. After: integers of 8 bits with the same values;
    results that may be out of range are wrapped, those of converted floats
    saturate. A bitcast between such types
    and others is an error.

    ```mlir
    %1 = stablehlo.add %0, %0 : tensor<4xi4>
    // becomes
    %1 = stablehlo.add %0, %0 : tensor<4xi8>
    %2 = stablehlo.shift_left %1, %c4 : tensor<4xi8>
    %3 = stablehlo.shift_right_arithmetic %2, %c4 : tensor<4xi8>
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numWidened", "widened", "ops on such integers">];
}

def SplitComplexPass : Pass<"scalify-split-complex", "::mlir::ModuleOp"> {
  let summary = "split complex tensors into real and imaginary parts";
  let description = [{
    For artefacts. Before: complex tensors anywhere but in the signature of
    `@main`. After: only operands and results of ops without a form by parts are
    complex (Fourier transforms, calls of libraries): their parts come from
    `stablehlo.real` and `imag`, and `stablehlo.complex` joins them again. Sums
    and movements of data become two ops, a product of matrices four; functions
    are computed from the parts.

    ```mlir
    %2 = stablehlo.multiply %0, %1 : tensor<4xcomplex<f32>>
    // becomes, for %0 = a + ib and %1 = c + id
    %ac = stablehlo.multiply %a, %c : tensor<4xf32>
    %bd = stablehlo.multiply %b, %d : tensor<4xf32>
    %re = stablehlo.subtract %ac, %bd : tensor<4xf32>
    ...
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [
    Statistic<"numSplit", "split", "ops on complex tensors that are replaced">];
}

def CanonicalizeStableHLOPass
    : Pass<"scalify-canonicalize-stablehlo", "::mlir::ModuleOp"> {
  let summary = "fold constants, simplify and merge equal ops";
  let description = [{
    Before and after: the same values. Every fold gives elements that compare
    equal (or are NaN as before) to those of the original program; nothing is
    reassociated, and `x * 0` stays. Only the sign of a zero may change: `x + 0`
    becomes `x`, also for x = -0, as in XLA. `signed-zeros` prevents this.
    - elementwise ops, conversions and moves of constants are evaluated if the
      result is a splat or small (`max-elements`); iota never is;
    - neutral elements, inverses and identity moves are removed, and moves of
      moves are composed; a slice within one operand of a concatenation becomes
      a slice of that operand (JAX reads values saved in an unrolled scan so);
    - a sum of two zero-padded tensors that share no element becomes a
      concatenation (`add(pad, pad)` is how JAX adds the gradients of slices);
    - `stablehlo.optimization_barrier` stays.
  }];
  let options = [
    Option<"maxElements", "max-elements", "int64_t", /*default=*/"1024",
           "size limit of constants that folds create, except splats">,
    Option<"signedZeros", "signed-zeros", "bool", /*default=*/"false",
           "preserve the sign of zeros">];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def NormalizeDonationPass
    : Pass<"scalify-normalize-donation", "::mlir::ModuleOp"> {
  let summary = "pair donated arguments with results and name arguments";
  let description = [{
    Before: arguments of `@main` donated by `tf.aliasing_output` or
    `jax.buffer_donor`. After: only `tf.aliasing_output = N : i32`, at most one
    argument per result, of equal types; each argument has `scalify.name`.
    In XLA's order, each donor is paired with the first unpaired result of its
    type. A donor without such a result loses the attribute. A name is the one
    in the argument's location (`loc("params['w']")`), else the
    `jax.result_info` of the aliased result, else `argN`.
  }];
}

def AnnotatePhasesPass : Pass<"scalify-annotate-phases", "::mlir::ModuleOp"> {
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let summary = "annotate ops with their phase: forward, backward or optimizer";
  let description = [{
    After: each op of `@main`, and of the bodies of its loops and branches, has
    `scalify.phase`: `#scalify.phase<forward>`, `<backward>` or `<optimizer>`.
    Terminators and the bodies of reductions have none.

    With JAX's locations the stack of names decides: `transpose(` is backward,
    unless `rematted_computation` is there too; `jvp(` and recomputation are
    forward. An op with neither has the phase of its operands, or that of the
    named ops of its step that need it if that is earlier. If none needs it, it
    is optimizer if it depends on gradients or feeds state, else forward. In a
    body an op with neither has the phase of the loop or branch, unless the body
    contains a forward and its backward, as of a micro-batch: then that of its
    operands, or that of its users if that is earlier.
    Without locations, ops that the loss depends on are forward. The loss is a
    scalar float result; of several, one named "loss", else those that reach the
    weights by the fewest dots. Ops that equal a forward op in value, looking
    through `optimization_barrier`, are forward too: they are recomputed. If no
    loss is returned, ops before the first dot of a derivative are forward. The
    rest is backward up to the gradients, and optimizer after them: elementwise
    ops, broadcasts and reductions on shapes of state that feed only results.
  }];
  let options = [
    Option<"useLocations", "use-locations", "bool", /*default=*/"true",
           "read phases from JAX's locations if there are any">];
}

def AlignDonationPass : Pass<"scalify-align-donation", "::mlir::ModuleOp"> {
  let summary = "alias donated arguments with their next values";
  let description = [{
    Before: ops have phases and donation is normalised. After: a donated
    argument aliases the result that is its next value (new parameters, moments
    and counters, as the flow of data has them), if one of its type and sharding
    is, and another one otherwise. The donated arguments are the same. Later
    stages take formats and scales of state from these pairs.

    ```mlir
    func.func @main(%m: tensor<4xf32> {tf.aliasing_output = 0 : i32},
                    %p: tensor<4xf32> {tf.aliasing_output = 1 : i32}) {
      %m1 = stablehlo.add %m, %gradient
      %p1 = stablehlo.subtract %p, %m1
      return %p1, %m1
    // becomes
    func.func @main(%m: tensor<4xf32> {tf.aliasing_output = 1 : i32},
                    %p: tensor<4xf32> {tf.aliasing_output = 0 : i32}) {
    ```
  }];
  let statistics = [Statistic<"numMoved", "moved", "arguments that alias another result">];
}

def AnnotateRolesPass : Pass<"scalify-annotate-roles", "::mlir::ModuleOp"> {
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let summary = "annotate arguments of main with their role";
  let description = [{
    Before: ops have phases and donation is normalised. After: each argument of
    `@main` has `scalify.role`: `param`, `master` (a wider copy of a param),
    `moment` (optimizer state, shaped like a param), `state` (other state:
    counters, loss scales, caches), `batch`, `scalar` or `input` (keys).
    Existing roles stay. The flow of data decides (docs/stages/import.md): an
    argument with a next value among the results is a param if it is a float
    that the forward reads, and a moment if the forward does not read it. Where
    the flow says nothing, the compiler's option `roles` may give names their
    roles after Import.
  }];
}

def ReturnGradientsPass
    : Pass<"scalify-return-gradients", "::mlir::ModuleOp"> {
  let summary = "return the gradients of a step in place of its results";
  let description = [{
    Before: phases on each op. After: `@main` returns the floats of more than one
    element that an op of the backward computes and the optimizer or the caller
    reads, in the order of the program, and nothing else. No argument is
    donated, and what only the former results need is erased.

    ```mlir
    %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] {scalify.phase = #scalify.phase<backward>} : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %p1 = stablehlo.subtract %p, %g {scalify.phase = #scalify.phase<optimizer>} : tensor<4x2xf32>
    return %p1 : tensor<4x2xf32>
    // becomes
    return %g : tensor<4x2xf32>
    ```
  }];
}

def ChunkSumsPass : Pass<"scalify-chunk-sums", "::mlir::ModuleOp"> {
  let summary = "split full sums of the optimizer into sums of chunks";
  let description = [{
    For programs that this compiler runs itself; XLA sums in an order of its
    own. Before: ops have phases. After: a sum of all elements of a float tensor
    in the optimizer phase, such as a norm, is a sum of sums of chunks of 1 to
    4,096 elements, in element order; chunks of a stack of layers are those of
    each slice. The chunk size depends on the number of elements alone, so that
    ranks that share the tensor (`--scalify-shard-state`) add in the same order
    as a process that has all of it.

    ```mlir
    %n = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1]
        {scalify.phase = #scalify.phase<optimizer>} : (tensor<64x48xf32>, tensor<f32>) -> tensor<f32>
    // becomes
    %0 = stablehlo.reshape %s : (tensor<64x48xf32>) -> tensor<3072xf32>
    %1 = stablehlo.reshape %0 : (tensor<3072xf32>) -> tensor<96x32xf32>
    %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
    %n = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0]
    ```
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
  let statistics = [Statistic<"numSums", "sums", "sums split into chunks">];
}

def ValidateImportPass : Pass<"scalify-validate-import", "::mlir::ModuleOp"> {
  let summary = "validate the contract of the Import stage";
  let description = [{
    The module has one function, the public `@main` of one block. Its ops are of
    stablehlo, `chlo.ragged_dot`, hints of `scalify.lax`, or sdy (for several
    devices); all shapes are static. Each op has a phase. Each argument has a
    role, a name and, if donated, a result of its type. The error names the
    first op at fault.
  }];
}

#endif // SCALIFY_IMPORT_PASSES
