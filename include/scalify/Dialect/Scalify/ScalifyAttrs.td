//===- ScalifyAttrs.td - Recipes and enums -----------------*- tablegen -*-===//

#ifndef SCALIFY_ATTRS_TD
#define SCALIFY_ATTRS_TD

include "scalify/Dialect/Scalify/ScalifyBase.td"

def Scalify_ScaleSource : I32EnumAttr<"ScaleSource",
    "source of the scale of a quantised operand", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Propagated", 1, "propagated">,
      I32EnumAttrCase<"Current", 2, "current">,
      I32EnumAttrCase<"Unit", 3, "unit">,
      I32EnumAttrCase<"Block", 4, "block">,
      I32EnumAttrCase<"Delayed", 5, "delayed">]> {
  let cppNamespace = "::scalify";
}

def Scalify_HistoryUse : I32EnumAttr<"HistoryUse",
    "the amax in a delayed scale's history that is used", [
      I32EnumAttrCase<"Max", 0, "max">,
      I32EnumAttrCase<"MostRecent", 1, "most_recent">]> {
  let cppNamespace = "::scalify";
}

def Scalify_GradientScaling : I32EnumAttr<"GradientScaling",
    "factor of a weight's gradient before it is stored narrow", [
      I32EnumAttrCase<"Mu", 0, "mu">,
      I32EnumAttrCase<"Minimum", 1, "minimum">,
      I32EnumAttrCase<"InverseSqrt", 2, "inverse_sqrt">]> {
  let cppNamespace = "::scalify";
}

def Scalify_Accumulation : I32EnumAttr<"Accumulation",
    "accumulation of a dot on FP8 data", [
      I32EnumAttrCase<"Fast", 0, "fast">,
      I32EnumAttrCase<"Precise", 1, "precise">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_AccumulationAttr
    : EnumAttr<Scalify_Dialect, Scalify_Accumulation, "accumulation"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_Rounding : I32EnumAttr<"RoundingMode",
    "rounding of a value to a narrow format", [
      I32EnumAttrCase<"Nearest", 0, "nearest">,
      I32EnumAttrCase<"Stochastic", 1, "stochastic">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_RoundingAttr
    : EnumAttr<Scalify_Dialect, Scalify_Rounding, "rounding"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_Phase : I32EnumAttr<"Phase",
    "part of a training step, in the order in which a step runs them", [
      I32EnumAttrCase<"Forward", 0, "forward">,
      I32EnumAttrCase<"Backward", 1, "backward">,
      I32EnumAttrCase<"Optimizer", 2, "optimizer">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_PhaseAttr : EnumAttr<Scalify_Dialect, Scalify_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_Role : I32EnumAttr<"Role",
    "purpose of an argument in a training step", [
      I32EnumAttrCase<"Param", 0, "param">,
      I32EnumAttrCase<"Master", 1, "master">,
      I32EnumAttrCase<"Moment", 2, "moment">,
      I32EnumAttrCase<"State", 3, "state">,
      I32EnumAttrCase<"Batch", 4, "batch">,
      I32EnumAttrCase<"Input", 5, "input">,
      I32EnumAttrCase<"Scalar", 6, "scalar">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_RoleAttr : EnumAttr<Scalify_Dialect, Scalify_Role, "role"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_Statistic : I32EnumAttr<"Statistic",
    "statistic that a dynamic rescale measures", [
      I32EnumAttrCase<"Max", 0, "max">,
      I32EnumAttrCase<"L1", 1, "l1">,
      I32EnumAttrCase<"L2", 2, "l2">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_StatisticAttr
    : EnumAttr<Scalify_Dialect, Scalify_Statistic, "statistic"> {
  let assemblyFormat = "$value";
}

def Scalify_DotRole : I32EnumAttr<"DotRole",
    "the part of a model that a dot or convolution belongs to", [
      I32EnumAttrCase<"Linear", 0, "linear">,
      I32EnumAttrCase<"AttentionQK", 1, "attention_qk">,
      I32EnumAttrCase<"AttentionPV", 2, "attention_pv">,
      I32EnumAttrCase<"AttentionDS", 3, "attention_ds">,
      I32EnumAttrCase<"Head", 4, "head">,
      I32EnumAttrCase<"Embedding", 5, "embedding">,
      I32EnumAttrCase<"Convolution", 6, "convolution">,
      I32EnumAttrCase<"Router", 7, "router">,
      I32EnumAttrCase<"Optimizer", 8, "optimizer">,
      I32EnumAttrCase<"Product", 9, "product">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_DotRoleAttr
    : EnumAttr<Scalify_Dialect, Scalify_DotRole, "dot_role"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_DotKind : I32EnumAttr<"DotKind",
    "result of a dot in its layer: the output, the gradient of its input, "
    "or that of its weight", [
      I32EnumAttrCase<"Forward", 0, "forward_dot">,
      I32EnumAttrCase<"InputGrad", 1, "input_grad">,
      I32EnumAttrCase<"WeightGrad", 2, "weight_grad">]> {
  let cppNamespace = "::scalify";
  let genSpecializedAttr = 0;
}
def Scalify_DotKindAttr
    : EnumAttr<Scalify_Dialect, Scalify_DotKind, "dot_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Scalify_TargetAttr : AttrDef<Scalify_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "the device that a module is compiled for";
  let description = [{
    On the module, as `scalify.target`; a module without one is for a CPU. The
    name is that of a registered target, which owns its capabilities, the
    constants of cost models, and the passes and functions that emit artefacts
    (`Targets.h`).

    ```mlir
    module attributes {scalify.target = #scalify.target<"sm_90a">} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"the name of a registered target">:$name);
  let assemblyFormat = "`<` $name `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the target of the module around `op`, or of the module `op`.
    static const Target &getTarget(mlir::Operation *op);
    static const TargetInfo &of(mlir::Operation *op);
    /// Sets the target; a module for a CPU gets no attribute.
    static void set(mlir::ModuleOp module, llvm::StringRef name);
  }];
}

def Scalify_DecisionAttr : AttrDef<Scalify_Dialect, "Decision"> {
  let mnemonic = "decision";
  let summary = "the reason why a dot stays wide";
  let description = [{
    The part that decided is a keyword: a role or a kind of dot in the recipe
    (`head`, `input_grad`), `name` for one of its exceptions, `unprofitable`,
    `sensitive` or `sensitive_wide` for a model's decision, `health` for a
    run's, or a property of the program (`shape`, `moment`, `solver`, `type`,
    `given`, `body`, `loop`, `scale`, `constant`, `range`). The reason is for
    people; no code reads it.

    ```mlir
    #scalify.decision<"head", "the last linear layer before the loss">
    ```
  }];
  let parameters = (ins
    StringRefParameter<"the part of the recipe or program that decided">:$part,
    StringRefParameter<"the reason, for people">:$reason);
  let assemblyFormat = "`<` $part `,` $reason `>`";
  let extraClassDeclaration = [{
    /// "part: reason".
    std::string describe() const;
    /// True if the recipe, or a run under it, wants the dot wide. A strict
    /// recipe rejects all other decisions.
    bool isChoice() const;
  }];
}

def Scalify_FormatsAttr : AttrDef<Scalify_Dialect, "Formats"> {
  let mnemonic = "formats";
  let summary = "the formats of a dot's operands";
  let description = [{
    The formats to which the two operands of a dot are cast, and the block size
    along each dimension of an operand whose scales are those of blocks (0 spans
    the dimension).

    ```mlir
    #scalify.formats<f8E4M3FN, f8E5M2>
    #scalify.formats<f8E4M3FN by [1, 128], f8E4M3FN by [128, 128]>
    ```
  }];
  let parameters = (ins
    "::mlir::Type":$lhs,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$lhsBlock,
    "::mlir::Type":$rhs,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$rhsBlock);
  let assemblyFormat = [{
    `<` $lhs (`by` $lhsBlock^)? `,` $rhs (`by` $rhsBlock^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The format and the block size of operand 0 or 1.
    ::mlir::FloatType getFormat(unsigned operand) const {
      return ::mlir::cast<::mlir::FloatType>(operand == 0 ? getLhs()
                                                          : getRhs());
    }
    ::mlir::DenseI64ArrayAttr getBlock(unsigned operand) const {
      return operand == 0 ? getLhsBlock() : getRhsBlock();
    }
  }];
}

def Scalify_RecipeAttr : AttrDef<Scalify_Dialect, "Recipe"> {
  let mnemonic = "recipe";
  let summary = "formats of casts, and sources of their scales";
  let description = [{
    A recipe is an attribute of the module, so that tests can show it and users
    can write it. A preset's name stands for all its parts. Parts after it
    override the preset, and only these are printed:

    ```mlir
    module attributes {scalify.recipe = #scalify.recipe<"fp8">} {}
    module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {}
    module attributes {scalify.recipe = #scalify.recipe<"fp8",
        attention_qk = f8E4M3FN, attention_pv = bf16, moments = f16,
        where = {"layer0/" = wide, "params\\['gate'\\]" = bf16}>} {}
    ```

    A name other than a preset's starts from `fp8`.

    - `scales`: `none` (no casts), `propagated` (the scale from the rules),
      `current` (power of two from the operand's amax, measured in the step),
      `block` (the same for each block of an operand), `delayed` (power of two
      from the amaxes of earlier steps; in the first step as `propagated`),
      `unit` (a plain cast).
    - `block`, `weight_block`: under `scales = block`, the block sizes along the
      minor-most free and the minor-most contracting dimension of an operand:
      `[1, 128]` for activations and gradients, `[128, 128]` for weights (all
      arguments of the step except its batch). Along other dimensions a block
      has one index. A size of 0 spans all dimensions of its kind, so that
      `block = [1, 0]` is one scale per row.
    - `history`: the number of earlier steps that `delayed` uses (16);
      `history_use`: the `max` of their amaxes, or the `most_recent`; `margin`:
      binades that `current`, `block` and `delayed` leave free above the amax
      (0).
    - `forward`, `gradient`: the format of a dot's operands, by the phase that
      produced the operand: f8E4M3FN, f8E5M2, f16, bf16.
    - `linear`, `attention_qk` (the scores), `attention_pv` (the weighted sum of
      values and its two gradients), `attention_ds` (the two dots on the
      gradient of the scores), `attention` (all three), `head` (the last linear
      layer before the loss), `router` (a linear layer that chooses experts),
      `embedding` (a one-hot times a table), `convolution`, `optimizer` (dots of
      the update, as in Muon or Shampoo), `product` (other products of two
      activations): the formats of these. `true`: the
      recipe's own; `false` or `wide`: not cast; a type: for all operands; `[a,
      b]`: forward and gradient. An f32 operand keeps its dots wide.
    - `forward_dot`, `input_grad`, `weight_grad`: the formats of dots that
      compute a layer's output, the gradient of its input or that of its weight.
      They replace the formats of the dot's role if these cast it; `true`: as
      the role.
    - `accumulation`: of dots on FP8 data, if the device offers two ways:
      `fast`, in the tensor cores' own registers of fewer bits, or `precise`;
      one word, or `[forward_dot, input_grad, weight_grad]`. The default is fast
      in the forward and precise for gradients.
    - `unprofitable`: the formats of dots that a cost model of the target's GPU,
      for a CPU an H100, finds slower in FP8 than in BF16; `true`: as all
      others.
    - `sensitive`: the formats of dots whose rounding, by the noise analysis,
      moves the gradients too far from those of F32 (a cosine of 0.98 over all
      and 0.96 of one, with room); `true`: as all others. Presets for FP8 make
      them BF16, those of 16 bits leave them wide.
    - `where`: exceptions; the first match applies. A key is a regular
      expression that is searched in the name of the dot's weight and in the
      dot's location. After `forward_dot:`, `input_grad:` or `weight_grad:` it
      matches only dots of that kind. A key that matches no dot gets a warning.
      Instead of formats, `fast` or `precise` sets the dots' accumulation; the
      first match is determined separately for the two.
    - `masters`, `first_moment`, `second_moment` (`moments`: these two; `state`:
      all three): the format in which parameters and the optimizer's moments are
      stored, with their scale; `given`: as in the program. A second moment is
      one whose root the optimizer takes; the root is stored.
    - `state_rounding`: `stochastic`, up or down at random, with the probability
      that preserves the mean; or `nearest`.
    - `stored_gradient`: the format in which gradients of weights are kept
      between the backward and the optimizer, with a scale common to all ranks;
      `given`: as in the program. It applies to weights whose dots the recipe
      casts.
    - `gradient_scaling`: their factor before that cast: `mu`, a number per
      weight that halves if more than 0.001 % of the data are at the format's
      largest value, and otherwise doubles over 1,000 steps; `minimum`, no
      factor besides the common scale; `inverse_sqrt`, one over the root of the
      number of ranks.
    - `gradient_sum`: the format of sums of gradients that a loop over
      micro-batches carries; `given`: as in the program.
    - `gradient_wire`: the format in which each rank sends its gradient of a
      weight to the ranks that sum it, in F32, with a common scale; `given`: as
      in the program. It applies to weights whose dots the recipe casts.
    - `activation_wire`: the same for the partial products that ranks sum in the
      forward, and for their gradients, as in tensor parallelism.
    - `simulated_ranks`: gradients with a leading dimension of this size, over
      which the step sums, are reduced like those of as many ranks (1: none).
    - `saved`: the format of forward values kept for the backward, other than
      operands of dots; `given`: as computed.
    - `gradient_exponent`: added to the log2 of the scale of every gradient
      operand, under `propagated` in formats with 5 exponent bits or more, and
      under `unit`, where -16 acts as one constant loss scale 2^16.
    - `rescale`: the places where the step measures scales, a list of roles
      (`"residual_grad"`, `"residual"`) and regular expressions for names in
      locations, as `scalify-place-rescales` takes them; those of the user's
      call are added.
    - `priors`: the guesses about training that predictions use, a list of names
      (`include/scalify/Scaling/Priors.h`), `"default"` for all, `"none"` for
      none beyond the program itself.
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    EnumParameter<Scalify_ScaleSource>:$scales,
    "::mlir::Type":$forward,
    "::mlir::Type":$gradient,
    ArrayRefParameter<"::scalify::DotFormats">:$roles,
    ArrayRefParameter<"::scalify::FormatOverride">:$overrides,
    "::scalify::StorageFormats":$storage,
    "::scalify::GradientFormats":$gradients,
    "int64_t":$gradientExponent,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$rescale,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$priors,
    "::scalify::BlockSizes":$blocks,
    "::scalify::DelayedScaling":$delayed,
    "::scalify::DotSums":$sums);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The preset of that name, or null if there is none.
    static RecipeAttr getPreset(::mlir::MLIRContext *context,
                                ::llvm::StringRef name);
    /// The names of all presets, for diagnostics.
    static ::llvm::ArrayRef<::llvm::StringRef> getPresetNames();
    /// Returns the recipe of a module; `none` if it has no such attribute.
    static RecipeAttr of(::mlir::Operation *module);
    bool castsDots() const { return getScales() != ScaleSource::None; }
    /// True if any dot is cast to FP8.
    bool castsToFloat8() const;
    /// The formats of a role; nulls are resolved to the recipe's own formats.
    DotFormats getFormats(DotRole role) const {
      return resolve(getRoles()[static_cast<unsigned>(role)]);
    }
    /// The formats of a kind of dot; null: those of the role.
    DotFormats getFormats(DotKind kind) const {
      return getRoles()[kFirstKind + static_cast<unsigned>(kind)];
    }
    /// The formats of dots that FP8 would make slower; null: those of all
    /// others.
    DotFormats getUnprofitable() const { return getRoles()[kUnprofitable]; }
    /// The formats of dots whose rounding moves gradients too far; null: those
    /// of all others.
    DotFormats getSensitive() const { return getRoles()[kSensitive]; }
    DotFormats resolve(DotFormats formats) const {
      return {formats.forward ? formats.forward : getForward(),
              formats.gradient ? formats.gradient : getGradient()};
    }
  }];
}

#endif // SCALIFY_ATTRS_TD
