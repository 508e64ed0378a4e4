//===- Recipe.cpp - Presets and verification of recipes -------------------===//

#include "scalify/Dialect/Scalify/RecipeText.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace scalify;

static_assert(kFirstKind == getMaxEnumValForDotRole() + 1 &&
                  kNumDotKinds == getMaxEnumValForDotKind() + 1,
              "a recipe has formats for each role and each kind of dot");

namespace {
enum class Width { Float8, F16, BF16 };

struct Preset {
  llvm::StringLiteral name;
  ScaleSource scales;
  Width width;
  int64_t gradientExponent;
  /// For FP8-LM: 1 stores masters and gradients narrow, 2 and 3 moments too.
  int level = 0;
};
} // namespace

// `fp8-plain-scaled` is the strong baseline: plain casts under one constant
// loss scale of 2^16, which on an easy model ties with propagation.
static constexpr Preset kPresets[] = {
    {"none", ScaleSource::None, Width::Float8, 0},
    {"fp16", ScaleSource::Propagated, Width::F16, -3},
    {"bf16", ScaleSource::Propagated, Width::BF16, 0},
    {"fp8", ScaleSource::Propagated, Width::Float8, -3},
    {"fp8-current", ScaleSource::Current, Width::Float8, 0},
    {"fp8-block", ScaleSource::Block, Width::Float8, 0},
    {"fp8-delayed", ScaleSource::Delayed, Width::Float8, 0},
    {"fp8-state", ScaleSource::Propagated, Width::Float8, -3, 2},
    {"fp8-plain", ScaleSource::Unit, Width::Float8, 0},
    {"fp8-plain-scaled", ScaleSource::Unit, Width::Float8, -16},
    {"fp8-lm-o1", ScaleSource::Current, Width::Float8, 0, 1},
    {"fp8-lm-o2", ScaleSource::Current, Width::Float8, 0, 2},
    {"fp8-lm-o3", ScaleSource::Current, Width::Float8, 0, 3},
};

ArrayRef<StringRef> RecipeAttr::getPresetNames() {
  static const SmallVector<StringRef> names = llvm::map_to_vector(
      kPresets, [](const Preset &preset) -> StringRef { return preset.name; });
  return names;
}

static RecipeAttr makePreset(MLIRContext *context, const Preset &preset) {
  Type f16 = Float16Type::get(context), bf16 = BFloat16Type::get(context);
  Type wide = Float32Type::get(context);
  Type forward = Float8E4M3FNType::get(context);
  // A block's values are close to its amax: the mantissa matters more there.
  Type gradient = preset.scales == ScaleSource::Block
                      ? forward
                      : Float8E5M2Type::get(context);
  SmallVector<DotFormats> roles(kNumFormats);
  StorageFormats storage;
  // Under round to nearest, updates below half an ulp are lost in every step.
  storage.rounding = RoundingMode::Stochastic;
  if (preset.width == Width::Float8) {
    // FP8 costs accuracy in these, and they are a small part of the work.
    for (DotRole role :
         {DotRole::AttentionQK, DotRole::AttentionPV, DotRole::AttentionDS,
          DotRole::Head, DotRole::Embedding, DotRole::Convolution})
      roles[static_cast<unsigned>(role)] = {bf16, bf16};
  } else {
    forward = gradient = preset.width == Width::F16 ? f16 : bf16;
    storage.saved = forward;
    // BF16 keeps 8 bits: updates below 2^-9 of a weight would be lost.
    if (preset.width == Width::F16)
      storage.masters = storage.firstMoments = storage.secondMoments = f16;
  }
  // Rows of other products of activations may vanish (AttentionRoles.cpp), and
  // 16 bits do not suffice before a norm or a quotient.
  roles[static_cast<unsigned>(DotRole::Product)] = {wide, wide};
  GradientFormats gradients;
  if (preset.level >= 1) {
    // Saved in 16 bits, the exponentials of a softmax are all that its backward
    // keeps if a wide dot divides them again; a cast of the quotient is kept
    // beside them.
    for (DotRole role :
         {DotRole::AttentionQK, DotRole::AttentionPV, DotRole::AttentionDS})
      roles[static_cast<unsigned>(role)] = {wide, wide};
    storage.masters = f16;
    // FP8-LM runs the rest in 16 bits.
    storage.saved = bf16;
    gradients.stored = gradients.wire = forward;
  }
  // A second moment in FP8 diverges, whereas a first one works.
  if (preset.level >= 2) {
    storage.firstMoments = forward;
    storage.secondMoments = f16;
  }
  // Iterations such as Newton-Schulz cancel: no scaling rule can predict their
  // values.
  roles[static_cast<unsigned>(DotRole::Optimizer)] = {wide, wide};
  // A choice between nearly equal scores is sensitive to 16 bits already.
  roles[static_cast<unsigned>(DotRole::Router)] = {wide, wide};
  if (preset.width == Width::Float8)
    roles[kSensitive] = {bf16, bf16};
  else
    roles[kSensitive] = {wide, wide};
  return RecipeAttr::get(context, StringAttr::get(context, preset.name),
                         preset.scales, forward, gradient, roles,
                         ArrayRef<FormatOverride>(), storage, gradients,
                         preset.gradientExponent, ArrayRef<StringAttr>(),
                         ArrayRef{StringAttr::get(context, "default")},
                         BlockSizes(), DelayedScaling(), DotSums());
}

RecipeAttr RecipeAttr::getPreset(MLIRContext *context, StringRef name) {
  for (const Preset &preset : kPresets)
    if (preset.name == name)
      return makePreset(context, preset);
  return {};
}

RecipeAttr RecipeAttr::of(Operation *module) {
  if (auto recipe = module->getAttrOfType<RecipeAttr>(kRecipeAttr))
    return recipe;
  return getPreset(module->getContext(), "none");
}

/// Returns the part of an entry in the list of formats.
static StringRef describeFormats(unsigned index) {
  if (index < kFirstKind)
    return stringifyDotRole(static_cast<DotRole>(index));
  if (index < kUnprofitable)
    return stringifyDotKind(static_cast<DotKind>(index - kFirstKind));
  return index == kUnprofitable ? "unprofitable" : "sensitive";
}

std::pair<std::optional<DotKind>, StringRef>
scalify::splitPattern(StringAttr pattern) {
  StringRef rest = pattern.getValue();
  for (unsigned i = 0; i < kNumDotKinds; ++i) {
    auto kind = static_cast<DotKind>(i);
    if (rest.consume_front((stringifyDotKind(kind) + ":").str()))
      return {kind, rest};
  }
  return {std::nullopt, rest};
}

bool RecipeAttr::castsToFloat8() const {
  auto casts = [&](DotFormats formats) {
    formats = resolve(formats);
    return hasFP8Elements(formats.forward) || hasFP8Elements(formats.gradient);
  };
  auto kinds = llvm::make_filter_range(
      getRoles().slice(kFirstKind, kNumDotKinds),
      [](DotFormats formats) { return formats != DotFormats(); });
  return castsDots() &&
         (llvm::any_of(getRoles().take_front(kFirstKind), casts) ||
          llvm::any_of(kinds, casts) ||
          llvm::any_of(getOverrides(), [&](const FormatOverride &entry) {
            return !entry.accumulation && casts(entry.formats);
          }));
}

/// True if operands of these formats can meet in a dot: both FP8, one 16-bit
/// format, or one of them wide.
static bool areCompatibleFormats(Type a, Type b) {
  return a == b || a.isF32() || b.isF32() ||
         (hasFP8Elements(a) && hasFP8Elements(b));
}

static LogicalResult
checkFormats(llvm::function_ref<InFlightDiagnostic()> emitError,
             const Twine &part, DotFormats formats) {
  for (Type type : {formats.forward, formats.gradient})
    if (!hasFP8Elements(type) && !type.isF16() && !type.isBF16() &&
        !type.isF32())
      return emitError() << "part '" << part << "' of a recipe has the format "
                         << type
                         << ": expected f8E4M3FN, f8E5M2, f16, bf16, or f32 "
                            "for wide";
  if (!areCompatibleFormats(formats.forward, formats.gradient))
    return emitError() << "part '" << part << "' of a recipe has the formats "
                       << formats.forward << " and " << formats.gradient
                       << ", which cannot meet in one dot: give two of FP8, or "
                          "one 16-bit format for both";
  return success();
}

LogicalResult
FormatsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                    Type lhs, DenseI64ArrayAttr lhsBlock, Type rhs,
                    DenseI64ArrayAttr rhsBlock) {
  for (Type type : {lhs, rhs})
    if (!hasFP8Elements(type) && !type.isF16() && !type.isBF16())
      return emitError() << "an operand has the format " << type
                         << ": expected f8E4M3FN, f8E5M2, f16 or bf16";
  if (!areCompatibleFormats(lhs, rhs))
    return emitError() << "operands have the formats " << lhs << " and " << rhs
                       << ", which cannot meet in one dot";
  for (DenseI64ArrayAttr block : {lhsBlock, rhsBlock})
    if (block &&
        llvm::any_of(block.asArrayRef(), [](int64_t size) { return size < 0; }))
      return emitError() << "a block has the size " << block
                         << ": expected 1 or more along each dimension, or 0 "
                            "for the whole dimension";
  return success();
}

static LogicalResult
checkStorage(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef part,
             Type type) {
  if (!type || hasFP8Elements(type) || type.isF16() || type.isBF16())
    return success();
  return emitError() << "part '" << part << "' of a recipe has the format "
                     << type
                     << ": expected f8E4M3FN, f8E5M2, f16, bf16 or given";
}

LogicalResult RecipeAttr::verify(
    llvm::function_ref<InFlightDiagnostic()> emitError, StringAttr,
    ScaleSource scales, Type forward, Type gradient, ArrayRef<DotFormats> roles,
    ArrayRef<FormatOverride> overrides, StorageFormats storage,
    GradientFormats gradients, int64_t exponent, ArrayRef<StringAttr> rescale,
    ArrayRef<StringAttr>, BlockSizes blocks, DelayedScaling delayed, DotSums) {
  if (roles.size() != kNumFormats)
    return emitError() << "a recipe has " << kNumFormats
                       << " formats of dots, got " << roles.size();
  if (failed(checkFormats(emitError, "forward, gradient", {forward, gradient})))
    return failure();
  auto resolve = [&](DotFormats formats) -> DotFormats {
    return {formats.forward ? formats.forward : forward,
            formats.gradient ? formats.gradient : gradient};
  };
  for (auto [index, formats] : llvm::enumerate(roles))
    if (failed(
            checkFormats(emitError, describeFormats(index), resolve(formats))))
      return failure();
  for (const FormatOverride &entry : overrides) {
    std::string error;
    if (!llvm::Regex(splitPattern(entry.pattern).second).isValid(error))
      return emitError() << "part 'where' of a recipe has the pattern '"
                         << entry.pattern.getValue()
                         << "', which is no regular expression: " << error;
    if (failed(checkFormats(emitError,
                            "where \"" + entry.pattern.getValue() + "\"",
                            resolve(entry.formats))))
      return failure();
  }
  for (int64_t size :
       {blocks.data[0], blocks.data[1], blocks.weights[0], blocks.weights[1]})
    if (size < 0)
      return emitError() << "a recipe has the block size '" << size
                         << "': expected 1 or more, or 0 for the whole "
                            "dimension";
  if (delayed.history < 1 || delayed.history > 65536)
    return emitError() << "part 'history' of a recipe is " << delayed.history
                       << ": expected 1 to 65536 steps";
  if (delayed.margin < -64 || delayed.margin > 64)
    return emitError() << "part 'margin' of a recipe is " << delayed.margin
                       << ": expected -64 to 64 binades";
  if (exponent < -64 || exponent > 64)
    return emitError() << "part 'gradient_exponent' of a recipe is " << exponent
                       << ": expected -64 to 64 binades";
  bool isMeasured = scales == ScaleSource::Current ||
                    scales == ScaleSource::Block ||
                    scales == ScaleSource::Delayed;
  if (delayed.margin != 0 && !isMeasured)
    return emitError() << "part 'margin' of a recipe is " << delayed.margin
                       << " under scales = " << stringifyScaleSource(scales)
                       << ", which measure no amax to leave it above: expected "
                          "0, or scales = current, block or delayed "
                          "(gradient_exponent moves the scales of gradients)";
  if (gradients.ranks < 1 || gradients.ranks > 1024)
    return emitError() << "part 'simulated_ranks' of a recipe is "
                       << gradients.ranks << ": expected 1 to 1024 ranks";
  for (StringAttr place : rescale) {
    StringRef pattern = place.getValue();
    pattern.consume_front("grad:");
    std::string error;
    if (!llvm::Regex(pattern).isValid(error))
      return emitError() << "part 'rescale' of a recipe has the place " << place
                         << ", which is neither residual, residual_grad nor a "
                            "regular expression: "
                         << error;
  }
  return success(
      succeeded(checkStorage(emitError, "masters", storage.masters)) &&
      succeeded(
          checkStorage(emitError, "first_moment", storage.firstMoments)) &&
      succeeded(
          checkStorage(emitError, "second_moment", storage.secondMoments)) &&
      succeeded(checkStorage(emitError, "stored_gradient", gradients.stored)) &&
      succeeded(checkStorage(emitError, "gradient_sum", gradients.sum)) &&
      succeeded(checkStorage(emitError, "gradient_wire", gradients.wire)) &&
      succeeded(checkStorage(emitError, "activation_wire", storage.wire)) &&
      succeeded(checkStorage(emitError, "saved", storage.saved)));
}
