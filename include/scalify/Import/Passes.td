//===- Passes.td - Passes of the Import stage --------------*- tablegen -*-===//

#ifndef SCALIFY_IMPORT_PASSES
#define SCALIFY_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def InlineCallsPass : Pass<"scalify-inline-calls", "::mlir::ModuleOp"> {
  let summary = "inline all calls into public functions";
  let description = [{
    Before: public functions that call private ones, also from inside regions.
    After: no `func.call`; private functions are gone. An inlined op's location
    is `callsite(callee at call)`, from which the stack of JAX names is read.

    ```mlir
    func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
    becomes the body of `@relu` in place of the call. A recursive call, or one
    of a function without a body, is an error.

    A call of `ApproxTopK` (jax.lax.approx_max_k) becomes a stable sort by its
    comparator, and slices: exact, which an approximation may be.
  }];
  let statistics = [Statistic<"numInlined", "calls-inlined",
                              "calls replaced by the callee's body">];
}

def SetTargetPass : Pass<"scalify-set-target", "::mlir::ModuleOp"> {
  let summary = "set the target of the module";
  let description = [{
    After: the module has `scalify.target`, which later passes ask for what the
    device can do and what it costs; a module for a CPU has none. An unknown
    target is an error.

    ```mlir
    module attributes {scalify.target = #scalify.target<"sm_90a">} {}
    ```
  }];
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_90a\"", "cpu or sm_90a">];
}

def ImportCallbacksPass
    : Pass<"scalify-import-callbacks", "::mlir::ModuleOp"> {
  let summary = "replace tokens that order callbacks by scalars";
  let description = [{
    Before: `!stablehlo.token`s among the arguments and results of `@main`, of
    loops, branches and custom calls, as JAX writes them around ordered
    callbacks; calls are inlined. After: none in `@main`'s signature, whose
    `tf.aliasing_output` counts without them, and scalars of i32 everywhere
    else: a callback of JAX returns the token that it is given.

    ```mlir
    %t, %y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t0, %x)
        : (!stablehlo.token, tensor<3xf32>) -> (!stablehlo.token, tensor<3xf32>)
    ```
    becomes a call on `(tensor<i32>, tensor<3xf32>)`.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def NormalizeShardingPass
    : Pass<"scalify-normalize-sharding", "::mlir::ModuleOp"> {
  let summary = "drop meshes of one device and their shardings";
  let description = [{
    Before: `sdy.mesh`, shardings of arguments and results, and constraints as
    JAX writes them, also for one device. After: those over one device are
    gone, and so are meshes that nothing refers to; those over several stay.

    ```mlir
    sdy.mesh @empty_mesh = <[]>
    %0 = sdy.sharding_constraint %x <@empty_mesh, []> : tensor<ui32>
    ```
    leaves `%x` in place of `%0`.
  }];
}

def ExpandCHLOPass : Pass<"scalify-expand-chlo", "::mlir::ModuleOp"> {
  let summary = "expand chlo ops into stablehlo";
  let description = [{
    Before: chlo ops. After: stablehlo only. `chlo.top_k` becomes a stable sort
    that carries positions along, and two slices; `chlo.square` becomes
    `stablehlo.multiply %x, %x`; `erf`, `erfc` and `erf_inv` become polynomials
    computed in f32, whatever the element type (f64 aside, which they refuse):
    erf within 3 ulp, erfc within 12 ulp for |x| < 4 and then within x*x ulp of
    its ever smaller value, erf_inv within 4 ulp. `next_after` is arithmetic on
    the bits of any float with infinities.

    `chlo.ragged_dot` stays, as a part of the normal form. Any other op without
    an expansion stays as well: --scalify-validate-import names it.
  }];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def CanonicalizeStableHLOPass
    : Pass<"scalify-canonicalize-stablehlo", "::mlir::ModuleOp"> {
  let summary = "fold constants, simplify and merge equal ops";
  let description = [{
    Before and after: the same values. Every fold gives elements that compare
    equal (or are NaN as before) to those of the program as written; nothing is
    reassociated, and `x * 0` stays. The one liberty is the sign of a zero: `x +
    0` is `x`, also for x = -0, as in XLA. `signed-zeros` withdraws it.

    - elementwise ops, conversions and moves of constants are evaluated, where
      the result is a splat or small (`max-elements`); iota never is;
    - neutral elements, inverses and identities of moves go away, and moves of
      moves are one move; a slice of one part of a concatenation is one of the
      part, as JAX reads what it saves in a scan that it unrolls;
    - a sum of two zero-padded tensors that share no element is a concatenation
      (`add(pad, pad)` is how JAX adds the gradients of two slices);
    - `stablehlo.optimization_barrier` stays.
  }];
  let options = [
    Option<"maxElements", "max-elements", "int64_t", /*default=*/"1024",
           "largest constant, splats aside, that a fold may create">,
    Option<"signedZeros", "signed-zeros", "bool", /*default=*/"false",
           "keep also the sign of a zero">];
  let dependentDialects = ["::scalify::stablehlo::StableHLODialect"];
}

def NormalizeDonationPass
    : Pass<"scalify-normalize-donation", "::mlir::ModuleOp"> {
  let summary = "pair donated arguments with results and name arguments";
  let description = [{
    Before: arguments of `@main` donated by `tf.aliasing_output` or
    `jax.buffer_donor`. After: only `tf.aliasing_output = N : i32`, one argument
    to a result at most, of equal types; each argument has `scalify.name`.

    A donor takes, in order, the first result of its type that no argument
    has: XLA's order. A donor without such a result loses the attribute. A name
    is the one in the argument's location (`loc("params['w']")`), else the
    `jax.result_info` of the result that it shares memory with, else `argN`.
  }];
}

def AnnotatePhasesPass : Pass<"scalify-annotate-phases", "::mlir::ModuleOp"> {
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let summary = "annotate ops with their phase: forward, backward or optimizer";
  let description = [{
    After: each op of `@main`, and of the bodies of its loops and branches, has
    `scalify.phase`: `#scalify.phase<forward>`, `<backward>` or `<optimizer>`.
    Terminators and the bodies of reductions have none.

    With JAX's locations: `transpose(` in the stack of names is backward, unless
    `rematted_computation` is there too; `jvp(` and recomputation are forward;
    an op with neither is forward if such an op needs it, and otherwise
    optimizer if it needs a gradient or feeds state. In a body such an op has
    the phase of the loop or branch around it, unless the body holds both a
    forward and its backward, as of a micro-batch: then that of what it reads,
    or that of what reads it if that is earlier.

    Without: the ops that the loss needs (a scalar float result; of several, one
    named "loss", else those that reach the weights by the fewest products) are
    forward, and so are those equal to them in value when
    `optimization_barrier` is looked through, which is what recomputation
    leaves. Where no loss is returned, what comes before the first product of a
    derivative is forward. The rest is backward up to the gradients, and optimizer after them:
    the elementwise ops, broadcasts and reductions on shapes of state that feed
    nothing but results.
  }];
  let options = [
    Option<"useLocations", "use-locations", "bool", /*default=*/"true",
           "read the phase from JAX's locations where there are any">];
}

def AnnotateRolesPass : Pass<"scalify-annotate-roles", "::mlir::ModuleOp"> {
  let dependentDialects = ["::scalify::ScalifyDialect"];
  let summary = "annotate arguments of main with their role";
  let description = [{
    Before: phases are known and donation is normal. After: each argument of
    `@main` has `scalify.role`: `param`, `master` (a wider copy of a param),
    `moment` (state of the optimizer, shaped like a param), `state` (other
    donated values: counters, keys), `batch`, `scalar` or `input` (keys). A
    role that is present stays. Names that optax gives decide first (`.mu`,
    `.nu`, `.trace`, `.count`), then use: a donated float that the forward reads
    is a param, one that it does not read is a moment.
  }];
}

def ChunkSumsPass : Pass<"scalify-chunk-sums", "::mlir::ModuleOp"> {
  let summary = "chunk full sums of the optimizer, so that they do not depend on sharding";
  let description = [{
    For programs that run as they are compiled; XLA has an order of its own.
    Before: phases are known. After: each sum of all elements of a tensor of floats that
    is of the optimizer, as norms are, is a sum of sums of chunks of 1 to 4,096
    elements, in the order of elements, and of a stack of layers those of each
    slice. How large chunks are follows from the number of elements alone, and
    so ranks that share the tensor (`--scalify-shard-state`) add in the same
    order as a process that has all of it.

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
  let statistics = [Statistic<"numSums", "sums", "sums that became sums of chunks">];
}

def ValidateImportPass : Pass<"scalify-validate-import", "::mlir::ModuleOp"> {
  let summary = "validate the contract of the Import stage";
  let description = [{
    One function, the public `@main` of one block; only stablehlo ops (and
    `chlo.ragged_dot`, and sdy where there are several devices), all shapes
    static; each op has a phase; each argument has a role, a name and, if
    donated, a result of its type. The error names the first op at fault.
  }];
}

#endif // SCALIFY_IMPORT_PASSES
