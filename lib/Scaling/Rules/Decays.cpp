//===- Decays.cpp - Sums along an axis, and decays ------------------------===//
//
// S_i - S_j, for two entries of one cumulative sum S of x, is the sum of x over
// the places between. Op by op the entries are treated as independent: their
// difference then has the variance of both, and its exponential a tail far
// above 1. In a state-space model x is never positive, a mask keeps the entries
// i after j, and the exponential is a decay: 1 on the diagonal, and at most 1
// elsewhere.
//
//===----------------------------------------------------------------------===//

#include "Decays.h"

#include "Moments.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// Entries first to last of a cumulative sum of `count` terms along an axis.
struct Entries {
  ReduceWindowOp sum;
  int64_t count = 0, first = 0, last = 0;
  bool isReversed = false;

  Value getTerms() { return sum.getInputs()[0]; }
};

/// Pairs of entries i, j, by the number of terms between: i - j.
struct Segments {
  Value terms;
  int64_t count = 0;
  /// The number of pairs of each distance, from -(count - 1) on.
  SmallVector<double> pairs;

  /// Returns the share of pairs whose distances `keeps` accepts.
  double share(function_ref<bool(int64_t)> keeps) const;
  void forEach(function_ref<void(int64_t, double)> visit) const;
};
} // namespace

void Segments::forEach(function_ref<void(int64_t, double)> visit) const {
  for (auto [i, weight] : llvm::enumerate(pairs))
    if (weight > 0)
      visit(static_cast<int64_t>(i) - (count - 1), weight);
}

double Segments::share(function_ref<bool(int64_t)> keeps) const {
  double kept = 0, all = 0;
  forEach([&](int64_t distance, double weight) {
    all += weight;
    kept += keeps(distance) ? weight : 0;
  });
  return all > 0 ? kept / all : 0;
}

/// Returns the entries of a window that sums all places before, or all after,
/// along one axis; none for other windows.
static std::optional<Entries> getCumulativeSum(Value value) {
  auto window = value.getDefiningOp<ReduceWindowOp>();
  if (!window || window->getNumResults() != 1 ||
      !isa_and_nonnull<AddOp>(getSingleBodyOp(window.getBody())) ||
      !window.getPadding())
    return std::nullopt;
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  auto padding = window.getPadding()->getValues<int64_t>();
  std::optional<Entries> found;
  for (auto [dim, size] : llvm::enumerate(window.getWindowDimensions())) {
    if (size == 1)
      continue;
    int64_t low = padding[2 * dim], high = padding[2 * dim + 1];
    if (found || size != shape[dim] || low + high != size - 1 || (low && high))
      return std::nullopt;
    found = Entries{window, size, 0, size - 1, high > 0};
  }
  return found;
}

Ramp scalify::getRampOfSum(ReduceWindowOp op, const ScaleFacts &sum) {
  std::optional<Entries> entries = op->getNumResults() == 1
                                       ? getCumulativeSum(op->getResult(0))
                                       : std::nullopt;
  if (!entries)
    return {};
  // A sum with a mean grows by the number of terms, one without by its root.
  bool grows = std::fabs(sum.mean) > 0.5 * sum.rms;
  return {grows ? 1.0 : 0.5, static_cast<double>(entries->count),
          entries->isReversed};
}

/// Returns the entries, looking through changes of shape and one slice.
static std::optional<Entries> getEntries(Value value) {
  value = peelToSource(value);
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return getCumulativeSum(value);
  std::optional<Entries> found =
      getCumulativeSum(peelToSource(slice.getOperand()));
  if (!found || slice.getOperand().getType() != found->sum.getType(0))
    return std::nullopt;
  for (auto [dim, size] : llvm::enumerate(found->sum.getWindowDimensions())) {
    if (size == 1)
      continue;
    found->first = slice.getStartIndices()[dim];
    found->last = slice.getLimitIndices()[dim] - 1;
  }
  return found;
}

/// Returns the entries themselves, by the number of terms in each.
static Segments getPrefixes(Entries entries) {
  Segments found{entries.getTerms(), entries.count, {}};
  found.pairs.assign(2 * entries.count, 0);
  for (int64_t i = entries.first; i <= entries.last; ++i) {
    int64_t terms = entries.isReversed ? entries.count - i : i + 1;
    found.pairs[terms + entries.count - 1] = 1;
  }
  return found;
}

/// Returns the pairs of entries whose differences `value` is, by distances in
/// the direction in which S grows. A single entry is paired with the empty sum.
static std::optional<Segments> getSegments(Value value) {
  auto subtract = peelToSource(value).getDefiningOp<SubtractOp>();
  if (!subtract) {
    std::optional<Entries> entries = getEntries(value);
    return entries ? std::optional(getPrefixes(*entries)) : std::nullopt;
  }
  std::optional<Entries> a = getEntries(subtract.getLhs());
  std::optional<Entries> b = a ? getEntries(subtract.getRhs()) : std::nullopt;
  if (!b || a->sum != b->sum)
    return std::nullopt;
  Segments found{a->getTerms(), a->count, {}};
  for (int64_t distance = 1 - a->count; distance < a->count; ++distance) {
    int64_t step = a->isReversed ? -distance : distance;
    int64_t pairs = std::min(a->last, b->last + step) -
                    std::max(a->first, b->first + step) + 1;
    found.pairs.push_back(static_cast<double>(std::max<int64_t>(pairs, 0)));
  }
  return found;
}

bool scalify::matchSegmentSum(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<SubtractOp>(query.op))
    return false;
  std::optional<Segments> segments = getSegments(query.op->getResult(0));
  if (!segments)
    return false;
  const ScaleFacts &x = query.of(segments->terms);
  double first = 0, second = 0, size = 0, total = 0;
  segments->forEach([&](int64_t distance, double weight) {
    double m = static_cast<double>(distance);
    first += weight * m;
    second += weight * m * m;
    size += weight * std::fabs(m);
    total += weight;
  });
  first *= x.mean / total;
  second = (second * x.mean * x.mean + size * x.variance()) / total;
  out = ScaleFacts::moments(first, second - first * first);
  out.bound = static_cast<double>(segments->count - 1) * x.bound;
  if (segments->share([](int64_t distance) { return distance >= 0; }) == 1)
    out.sign = x.sign;
  else if (segments->share([](int64_t distance) { return distance <= 0; }) == 1)
    out.sign = flip(x.sign);
  out.rule = "difference of one cumulative sum: the terms between";
  return true;
}

/// True if the value is a masking constant, whose exponential is 0.
static bool isMasking(Value value) {
  DenseElementsAttr dense;
  if (!matchPattern(peelToSource(value), m_Constant(&dense)) ||
      !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return false;
  return dense.getSplatValue<APFloat>().convertToDouble() <= -128;
}

/// A mask keeps the half that decays: the exponential of the other half grows
/// without limit.
bool scalify::matchDecay(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  Value source = peelToSource(query.op->getOperand(0));
  auto select = source.getDefiningOp<SelectOp>();
  if (select && !isMasking(select.getOnFalse()))
    return false;
  std::optional<Segments> segments =
      getSegments(select ? select.getOnTrue() : source);
  if (!segments)
    return false;
  const ScaleFacts &x = query.of(segments->terms);
  if (x.sign == Sign::Any || x.mean == 0)
    return false;
  double side = x.sign == Sign::NonPositive ? 1 : -1;
  auto decays = [&](int64_t distance) { return side * distance >= 0; };
  double share = segments->share(decays);
  if (share == 0 || (!select && share < 1))
    return false;
  double first = 0, second = 0, total = 0;
  segments->forEach([&](int64_t distance, double weight) {
    if (!decays(distance))
      return;
    // Terms differ by the rate of their channel, which is the same along the
    // sum: m terms are m times one.
    ScaleFacts one = functionOf(x, [&](double t) {
      return std::exp(static_cast<double>(distance) * t);
    });
    first += weight * one.mean;
    second += weight * one.rms * one.rms;
    total += weight;
  });
  first *= share / total;
  second *= share / total;
  out = ScaleFacts::moments(first, second - first * first);
  out.bound = 1;
  out.sign = Sign::NonNegative;
  out.rule = "decay between entries of a cumulative sum: at most 1";
  return true;
}
