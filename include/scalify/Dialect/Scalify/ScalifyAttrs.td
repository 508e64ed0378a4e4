//===- ScalifyAttrs.td - Recipes and enums -----------------*- tablegen -*-===//

#ifndef SCALIFY_ATTRS_TD
#define SCALIFY_ATTRS_TD

include "scalify/Dialect/Scalify/ScalifyBase.td"

def Scalify_ScaleSource : I32EnumAttr<"ScaleSource",
    "where the scale of a quantised operand comes from", [
      I32EnumAttrCase<"None", 0, "none">,
      I32EnumAttrCase<"Propagated", 1, "propagated">,
      I32EnumAttrCase<"Current", 2, "current">,
      I32EnumAttrCase<"Unit", 3, "unit">]> {
  let cppNamespace = "::scalify";
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

def Scalify_RecipeAttr : AttrDef<Scalify_Dialect, "Recipe"> {
  let mnemonic = "recipe";
  let summary = "what is cast to which format, and where its scale comes from";
  let description = [{
    A recipe is an attribute of the module, so that a test can show it and a
    user can write one. A preset's name stands for all its parts; parts that
    follow override it:

    ```mlir
    module attributes {scalify.recipe = #scalify.recipe<"fp8">} {}
    module attributes {scalify.recipe = #scalify.recipe<"fp8", head = true>} {}
    ```

    - `scales`: `none` (nothing is cast), `propagated` (the scale that the
      rules gave), `current` (power of two from the operand's amax, measured in
      the step), `unit` (a plain cast).
    - `forward`, `gradient`: the format of a dot's operands, by the phase that
      made the operand.
    - `attention`, `head`: whether dots between two activations, and the last
      linear layer before the loss, are cast as well.
    - `gradient_exponent`: the log2 of the scale of every gradient operand
      under `unit`: -16 plays the part of one constant loss scale 2^16.
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    EnumParameter<Scalify_ScaleSource>:$scales,
    "::mlir::Type":$forward,
    "::mlir::Type":$gradient,
    "bool":$attention,
    "bool":$head,
    "int64_t":$gradientExponent);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The preset of that name, or null if there is none.
    static RecipeAttr getPreset(::mlir::MLIRContext *context,
                                ::llvm::StringRef name);
    /// The names of all presets, for diagnostics.
    static ::llvm::ArrayRef<::llvm::StringRef> getPresetNames();
    /// The recipe of a module; `none` where it carries none.
    static RecipeAttr of(::mlir::Operation *module);
    bool castsDots() const { return getScales() != ScaleSource::None; }
  }];
}

#endif // SCALIFY_ATTRS_TD
