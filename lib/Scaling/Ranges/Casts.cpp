//===- Casts.cpp - Bounds of values that Precision casts ------------------===//

#include "Transfer.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Saved values
//===----------------------------------------------------------------------===//

static bool isForward(Operation *op) { return getPhase(op) == Phase::Forward; }

FloatType scalify::getSavedFormat(Operation *op) {
  if (isForward(op))
    return {};
  RecipeAttr recipe = RecipeAttr::of(op->getParentOfType<ModuleOp>());
  return dyn_cast_or_null<FloatType>(recipe.getStorage().saved);
}

/// Widens an operand that may have been saved at a scale that is unknown here:
/// the nearest number of a format is at most twice as large, and may be zero.
static RangeState widenSaved(RangeState state) {
  state.hi = std::max(2 * state.hi, 0.0);
  state.lo = std::min(2 * state.lo, 0.0);
  for (NormBound &norm : state.l2)
    norm.bound *= 2;
  for (NormBound &norm : state.l1)
    norm.bound *= 2;
  state.peak.reset();
  return state;
}

RangeState scalify::readOperand(Value value, const RangeState &state,
                                FloatType saved) {
  Operation *def = value.getDefiningOp();
  // In a loop's body the backward slices the stack of saved values.
  bool isSlice =
      isa_and_present<stablehlo::DynamicSliceOp, stablehlo::SliceOp>(def);
  bool isSaved = saved && def && (isForward(def) || isSlice) &&
                 isa<FloatType>(getElementTypeOrSelf(value.getType()));
  return isSaved && state.initialized ? widenSaved(state) : state;
}

//===----------------------------------------------------------------------===//
// Operands of dots
//===----------------------------------------------------------------------===//

/// Returns the formats that the recipe gives to operands of dots.
static SmallVector<FloatType> getFormats(RecipeAttr recipe, bool isGradient) {
  SmallVector<DotFormats> parts(recipe.getRoles());
  for (const FormatOverride &entry : recipe.getOverrides())
    parts.push_back(entry.formats);
  parts.push_back({});
  return llvm::map_to_vector(parts, [&](DotFormats part) {
    DotFormats formats = recipe.resolve(part);
    return cast<FloatType>(isGradient ? formats.gradient : formats.forward);
  });
}

namespace {
/// The coarsest rounding of some formats.
struct CastRounding {
  explicit CastRounding(ArrayRef<FloatType> formats) {
    for (FloatType format : formats) {
      int digits = static_cast<int>(format.getFPMantissaWidth());
      unit = std::max(unit, std::ldexp(1.0, -digits));
      half = std::max(half, Rounding::of(format).absolute / 2);
      largest = std::min(largest, getLargestFinite(format));
    }
  }
  /// The relative error of rounding to nearest.
  double unit = 0;
  /// Half of the smallest magnitude: the absolute error near zero.
  double half = 0;
  double largest = RangeState::infinity();
};
} // namespace

/// Returns the rounding of the formats that Precision may cast the operand to.
static CastRounding getCastRounding(Operation *op, double data) {
  RecipeAttr recipe = RecipeAttr::of(op->getParentOfType<ModuleOp>());
  Operation *def = op->getOperand(0).getDefiningOp();
  SmallVector<FloatType> formats = getFormats(recipe, /*isGradient=*/false);
  CastRounding forward(formats);
  if (def && isInPhase(def, Phase::Forward) && data <= forward.largest)
    return forward;
  // A value that may be a gradient, or that does not fit the forward's format,
  // may get any format; so may a value that the ranges choose E5M2 for.
  llvm::append_range(formats, getFormats(recipe, /*isGradient=*/true));
  formats.push_back(Float8E5M2Type::get(op->getContext()));
  return CastRounding(formats);
}

/// Returns the largest scale by which Precision may cast a value of magnitude
/// `most` whose hint is `scale`.
static double getCastScale(RecipeAttr recipe, double scale, double most,
                           double largest) {
  auto shift = std::max<int>(0, recipe.getGradientExponent());
  switch (recipe.getScales()) {
  case ScaleSource::Current:
  case ScaleSource::Block:
    return 2 * most / largest;
  case ScaleSource::Delayed: // The scale may be that of other data.
    return 0x1p100;
  case ScaleSource::Unit:
    return std::ldexp(1.0, shift);
  case ScaleSource::Propagated:
  case ScaleSource::None:
    break;
  }
  return std::ldexp(scale, shift);
}

/// Bounds a value that Precision may cast: the program then computes with the
/// rounded value. Saturation only makes it smaller; an infinity may become NaN.
static RangeState mayCast(const RangeQuery &query) {
  const RangeState &scale = query[1];
  if (scale.lo != scale.hi || !scale.isFinite() || !query.isFloat())
    return RangeState::unknown(query.getType());
  RangeState state = query[0];
  state.sources = 1;
  state.peak.reset();
  double most = state.maxAbs();
  state.nan |= std::isinf(most);
  CastRounding rounding = getCastRounding(query.op, most / scale.lo);
  double grow = 1 + rounding.unit, shrink = 1 - rounding.unit;
  double added =
      rounding.half *
      getCastScale(RecipeAttr::of(query.op->getParentOfType<ModuleOp>()),
                   scale.lo, most, rounding.largest);
  state.hi = state.hi > 0 ? state.hi * grow + added
                          : std::min(0.0, state.hi * shrink + added);
  state.lo = state.lo < 0 ? state.lo * grow - added
                          : std::max(0.0, state.lo * shrink - added);
  for (NormBound &norm : state.l2)
    norm.bound = norm.bound * grow + added * std::sqrt(state.count(norm.axes));
  for (NormBound &norm : state.l1)
    norm.bound = norm.bound * grow + added * state.count(norm.axes);
  return state;
}

MaybeRange scalify::transferScalify(const RangeQuery &query) {
  if (isa<ScaleHintOp>(query.op))
    return mayCast(query);
  if (isa<QuantizeOp>(query.op)) {
    double largest = Rounding::of(query.getElement()).largest;
    bool mayBeInfinite = !query[0].isFinite() || !query[1].isFinite();
    // An infinity stays one in 16 bits, and becomes NaN in FP8.
    if (mayBeInfinite && query.getElement().getIntOrFloatBitWidth() > 8)
      largest = RangeState::infinity();
    return RangeState::interval(query.getType(), -largest, largest,
                                query[0].nan || mayBeInfinite);
  }
  if (isa<DequantizeOp>(query.op)) {
    double most = product(query[0].maxAbs(), query[1].maxAbs());
    return RangeState::interval(query.getType(), -most, most,
                                query[0].nan || !query[1].isFinite());
  }
  return std::nullopt;
}
