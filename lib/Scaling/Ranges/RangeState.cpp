//===- RangeState.cpp - Bounds on a value's magnitude ---------------------===//

#include "scalify/Scaling/RangeState.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

/// Returns half a unit in the last place, relative.
static double getUnit(FloatType type) {
  return std::ldexp(1.0, -static_cast<int>(type.getFPMantissaWidth()));
}

Rounding Rounding::of(Type element) {
  Rounding result;
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return result;
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  // Narrow types are computed in F32 and rounded once. F32 itself gets eight
  // units, for functions that targets approximate.
  if (type.getWidth() > 32)
    result.relative = 0x1p-50;
  else
    result.relative = getUnit(type) + 0x1p-21;
  result.absolute = APFloat::getSmallest(semantics).convertToDouble();
  result.largest = getLargestFinite(type);
  result.normal = APFloat::getSmallestNormalized(semantics).convertToDouble();
  return result;
}

double Rounding::ofSum(Type element, double count, bool wide) {
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return 1;
  double unit = getUnit(type);
  if (wide)
    unit = std::min(unit, 0x1p-24);
  // Twice the terms: for the rounding of products, and odd levels of a tree.
  return std::exp(2 * count * unit);
}

//===----------------------------------------------------------------------===//
// RangeState
//===----------------------------------------------------------------------===//

static Type getElement(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? shaped.getElementType() : type;
}

RangeState RangeState::unknown(Type type) {
  RangeState state;
  state.initialized = true;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    if (tensor.hasStaticShape() && tensor.getRank() <= 32)
      state.shape = tensor.getShape();
  if (auto integer = dyn_cast<IntegerType>(getElement(type))) {
    unsigned width = integer.getWidth();
    bool hasSign = !integer.isUnsigned() && width > 1;
    state.lo = hasSign ? -std::ldexp(1.0, width - 1) : 0;
    state.hi = std::ldexp(1.0, hasSign ? width - 1 : width) - 1;
    state.nan = false;
  }
  return state;
}

RangeState RangeState::interval(Type type, double lo, double hi, bool nan) {
  RangeState state = unknown(type);
  bool isInteger = isa<IntegerType>(getElement(type));
  // An integer that may wrap, or that a double does not hold exactly, is only
  // known to be within its type's range.
  if (isInteger && (lo < state.lo || hi > state.hi ||
                    std::max(std::fabs(lo), std::fabs(hi)) > 0x1p53))
    return state;
  state.lo = std::isnan(lo) ? -infinity() : lo;
  state.hi = std::isnan(hi) ? infinity() : hi;
  state.nan = nan;
  return state;
}

AxisSet RangeState::allAxes() const {
  AxisSet axes = 0;
  for (auto [i, size] : llvm::enumerate(shape))
    if (size != 1)
      axes |= AxisSet(1) << i;
  return axes;
}

double RangeState::count(AxisSet axes) const {
  double product = 1;
  for (auto [i, size] : llvm::enumerate(shape))
    if (axes >> i & 1)
      product *= size;
  return product;
}

/// Returns a * b, with zero times infinity as zero.
static double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

double RangeState::getL2(AxisSet axes) const {
  double largest = maxAbs();
  double best = times(largest, std::sqrt(count(axes)));
  for (const NormBound &norm : l2)
    best = std::min(best, norm.bound * std::sqrt(count(axes & ~norm.axes)));
  for (const NormBound &norm : l1) {
    // The sum of squares is at most the sum times the largest magnitude.
    double inside = std::min(norm.bound, std::sqrt(times(norm.bound, largest)));
    best = std::min(best, inside * std::sqrt(count(axes & ~norm.axes)));
  }
  return best;
}

double RangeState::getL1(AxisSet axes) const {
  double best = times(maxAbs(), count(axes));
  for (const NormBound &norm : l1)
    best = std::min(best, norm.bound * count(axes & ~norm.axes));
  for (const NormBound &norm : l2)
    best = std::min(best, norm.bound * std::sqrt(count(axes & norm.axes)) *
                              count(axes & ~norm.axes));
  return best;
}

SmallVector<AxisSet, 4> RangeState::getNormAxes() const {
  SmallVector<AxisSet, 4> axes;
  for (const auto *list : {&l2, &l1})
    for (const NormBound &norm : *list)
      if (!llvm::is_contained(axes, norm.axes))
        axes.push_back(norm.axes);
  return axes;
}

// A norm within this factor of what the other bounds imply is redundant.
static constexpr double kWorthKeeping = 0.999;
// More sets than the axes of a model combine to. The oldest norms are kept,
// since they bound most.
static constexpr unsigned kMaxNorms = 6;

void RangeState::add(SmallVectorImpl<NormBound> &list, AxisSet axes,
                     double bound, double implied) {
  axes &= allAxes();
  if (axes == 0) {
    // A row of one element: its norm is its magnitude.
    lo = std::max(lo, -bound);
    hi = std::min(hi, bound);
    return;
  }
  if (std::isnan(bound) || !(bound < kWorthKeeping * implied))
    return;
  lo = std::max(lo, -bound);
  hi = std::min(hi, bound);
  llvm::erase_if(list, [&](const NormBound &n) { return n.axes == axes; });
  if (list.size() < kMaxNorms)
    list.push_back({axes, bound});
}

void RangeState::addL2(AxisSet axes, double bound) {
  add(l2, axes, bound, getL2(axes));
}

void RangeState::addL1(AxisSet axes, double bound) {
  add(l1, axes, bound, getL1(axes));
}

void RangeState::clampToType(Type element) {
  auto type = dyn_cast<FloatType>(element);
  if (!type)
    return;
  double largest = Rounding::of(type).largest;
  if (maxAbs() <= largest)
    return;
  bool hasInfinity = APFloat::semanticsHasInf(type.getFloatSemantics());
  // Without infinities overflow is NaN.
  nan |= !hasInfinity;
  // A row with an infinite element has no norm, and a norm bound beyond the
  // type says nothing.
  l2.clear();
  l1.clear();
  if (hi > largest)
    hi = hasInfinity ? infinity() : largest;
  if (lo < -largest)
    lo = hasInfinity ? -infinity() : -largest;
}

void RangeState::allowFlush(Type element) {
  double normal = Rounding::of(element).normal;
  if (lo > 0 && lo < normal)
    lo = 0;
  if (hi < 0 && hi > -normal)
    hi = 0;
  if (peak && peak->bound > 0 && peak->bound < normal)
    peak->bound = 0;
}

void RangeState::round(Type element, double factor) {
  if (!isa<FloatType>(element))
    return;
  Rounding rounding = Rounding::of(element);
  double grow = factor * (1 + rounding.relative);
  // Rounding is monotonic and keeps zero, so no sign changes.
  auto outward = [&](double x) { return x * grow + rounding.absolute; };
  auto inward = [&](double x) {
    double y = x / grow - rounding.absolute;
    return y < rounding.normal ? 0 : y;
  };
  if (hi != 0)
    hi = hi > 0 ? outward(hi) : -inward(-hi);
  if (lo != 0)
    lo = lo < 0 ? -outward(-lo) : inward(lo);
  for (NormBound &norm : l2)
    norm.bound =
        norm.bound * grow + rounding.absolute * std::sqrt(count(norm.axes));
  for (NormBound &norm : l1)
    norm.bound = norm.bound * grow + rounding.absolute * count(norm.axes);
  if (peak)
    peak->bound = peak->bound > 0    ? inward(peak->bound)
                  : peak->bound == 0 ? 0
                                     : -outward(-peak->bound);
  clampToType(element);
}

RangeState RangeState::join(const RangeState &a, const RangeState &b) {
  if (!a.initialized || !b.initialized)
    return a.initialized ? a : b;
  RangeState result = a;
  result.lo = std::min(a.lo, b.lo);
  result.hi = std::max(a.hi, b.hi);
  result.nan = a.nan || b.nan;
  result.sources = a.sources | b.sources;
  result.l2.clear();
  result.l1.clear();
  if (!(a.peak == b.peak))
    result.peak.reset();
  for (const RangeState *state : {&a, &b})
    for (AxisSet axes : state->getNormAxes()) {
      result.addL2(axes, std::max(a.getL2(axes), b.getL2(axes)));
      result.addL1(axes, std::max(a.getL1(axes), b.getL1(axes)));
    }
  return result;
}

RangeState RangeState::widen(const RangeState &old, const RangeState &grown) {
  RangeState result = join(old, grown);
  if (result.lo < old.lo)
    result.lo = old.lo >= 0 && result.lo >= 0 ? 0 : -infinity();
  if (result.hi > old.hi)
    result.hi = infinity();
  auto giveUp = [](SmallVectorImpl<NormBound> &now,
                   const SmallVectorImpl<NormBound> &before) {
    llvm::erase_if(now, [&](const NormBound &norm) {
      return !llvm::is_contained(before, norm);
    });
  };
  giveUp(result.l2, old.l2);
  giveUp(result.l1, old.l1);
  for (const auto *list : {&result.l2, &result.l1})
    for (const NormBound &norm : *list) {
      result.lo = std::max(result.lo, -norm.bound);
      result.hi = std::min(result.hi, norm.bound);
    }
  return result;
}

bool RangeState::operator==(const RangeState &other) const {
  return initialized == other.initialized && lo == other.lo && hi == other.hi &&
         nan == other.nan && l2 == other.l2 && l1 == other.l1 &&
         peak == other.peak && sources == other.sources;
}

void RangeState::print(raw_ostream &os) const {
  os << "[" << lo << ", " << hi << "]" << (nan ? " or nan" : "");
  for (const NormBound &norm : l2)
    os << " l2<" << norm.axes << "> <= " << norm.bound;
  for (const NormBound &norm : l1)
    os << " l1<" << norm.axes << "> <= " << norm.bound;
}
