//===- Patterns.cpp - Bounds from relations between several ops -----------===//
//
// If an op relates a value to a function of the same value, the states of its
// operands alone bound little. Idioms.h recognises these relations. Each holds
// for any value, so a bound proved here assumes nothing about it:
//
//   x / sqrt(mean(x^2) + eps)        rows of norm sqrt(n)
//   x - max(x)                       at most 0, and 0 somewhere in each row
//   e / sum(e), e >= 0               convex weights
//   a cos t - b sin t                at most |(a, b)|; the pair keeps its norm
//   x logistic(x)                    at least -0.2785
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

/// Returns how much rounding may enlarge a sum of terms of one sign, where the
/// values on the way are rounded to `coarsest`.
static double getSumSlack(hlo::ReduceOp sum, double width, FloatType coarsest) {
  Type element = cast<ShapedType>(sum.getResult(0).getType()).getElementType();
  return Rounding::ofSum(element, width, /*wide=*/false) *
         (1 + 8 * Rounding::of(coarsest).relative);
}

/// x / |x|: the row's norm is at most sqrt(n).
static void refineNorm(const RangeQuery &query, RangeState &state) {
  std::optional<idioms::Norm> norm =
      idioms::matchNorm(query.op, MatchFor::Proof);
  if (!norm)
    return;
  // Squares below the smallest normal number may be lost: eps must be far
  // above.
  Type element = cast<ShapedType>(norm->squares.getType()).getElementType();
  if (!(norm->eps >=
        norm->scale * norm->width * Rounding::of(element).normal * 0x1p20))
    return;
  double bound = norm->numerator *
                 getSumSlack(norm->sum, norm->width, norm->coarsest) /
                 std::sqrt(norm->scale);
  for (Value factor : norm->factors)
    bound = product(bound, query.lookup(factor).maxAbs());
  bound *= 1 + 8 * Rounding::of(query.getElement()).relative;
  AxisSet axes = toAxisSet(norm->sum.getDimensions());
  if (!(bound < state.getL2(axes)))
    return;
  state.addL2(axes, bound);
  state.lo = std::max(state.lo, -bound);
  state.hi = std::min(state.hi, bound);
  // Without other factors the bound holds for any operands.
  unsigned row = norm->input == query.op->getOperand(0) ? 1 : 0;
  state.sources = norm->factors.empty() ? 0 : uint64_t(1) << row;
}

/// True if a compiler may fuse the product that defines `x` with the
/// subtraction: x is then rounded in its maximum, but not there. A product with
/// a power of two is exact. A mask between the two does not prevent fusion if
/// vectors have masks of their own (AVX-512).
static bool isUnroundedProduct(Value x) {
  x = skipConverts(x);
  if (auto select = x.getDefiningOp<hlo::SelectOp>())
    return isUnroundedProduct(select.getOnTrue()) ||
           isUnroundedProduct(select.getOnFalse());
  auto product = x.getDefiningOp<hlo::MulOp>();
  if (!product)
    return false;
  int exponent;
  return llvm::none_of(product->getOperands(), [&](Value factor) {
    std::optional<double> c = getSplat(factor);
    return c && std::fabs(std::frexp(*c, &exponent)) == 0.5;
  });
}

/// x - max(x) is at most zero: rounding keeps the order.
static void refineMaxSubtraction(const RangeQuery &query, RangeState &state) {
  auto found =
      idioms::matchMaxSubtraction(query.op->getResult(0), MatchFor::Proof);
  if (!found || (found->ifFinite && !query.lookup(found->ifFinite).isFinite()))
    return;
  const RangeState &largest = query[1];
  // In narrow types one side may have been rounded and the other not.
  double rounding = Rounding::of(found->coarsest).relative;
  double slack = 0;
  Rounding single = Rounding::of(Float32Type::get(query.op->getContext()));
  if (rounding >
      std::min(Rounding::of(query.getElement()).relative, single.relative))
    slack = 2 * rounding * largest.maxAbs();
  else if (isUnroundedProduct(found->input))
    slack = 2 * single.relative * largest.maxAbs();
  if (std::isinf(slack))
    return;
  state.hi = std::min(state.hi, slack);
  // With a finite maximum, x is infinite only under a mask: -inf, not NaN.
  if (largest.isFinite() && !query[0].nan &&
      query[0].hi < RangeState::infinity())
    state.nan = false;
  if (found->isAttained)
    state.peak = NormBound{toAxisSet(found->max.getDimensions()), -slack};
}

/// e / sum(e), if the sum is not flushed: weights that sum to one.
static void refineNormalisation(const RangeQuery &query, RangeState &state) {
  std::optional<idioms::Share> share =
      idioms::matchShare(query.op, MatchFor::Proof);
  Type element = query.getElement();
  if (!share || !query[0].isNonNegative() ||
      query[1].lo < Rounding::of(element).normal)
    return;
  double slack = getSumSlack(share->sum, share->width, share->coarsest);
  state.lo = std::max(state.lo, 0.0);
  state.hi = std::min(state.hi, slack);
  state.addL1(toAxisSet(share->sum.getDimensions()), slack);
  // An exponential is never negative, for any operand.
  bool isExponential =
      isa_and_nonnull<hlo::ExpOp>(skipConverts(share->input).getDefiningOp());
  state.sources = isExponential ? 0 : 1;
}

/// x * logistic(x) is at least -0.2785.
static void refineSiLU(const RangeQuery &query, RangeState &state) {
  auto gated = idioms::matchGatedValue(query.op, MatchFor::Proof);
  if (!gated)
    return;
  double rounding = std::max(Rounding::of(gated->coarsest).relative,
                             Rounding::of(query.getElement()).relative);
  state.lo = std::max(state.lo, -0.2785 * (1 + 8 * rounding));
}

void scalify::refineByPattern(const RangeQuery &query, RangeState &state) {
  if (!query.isFloat())
    return;
  if (auto op = dyn_cast<hlo::ReduceOp>(query.op))
    refineMaskedMax(query, op, state);
  refineNorm(query, state);
  refineNormalisation(query, state);
  refineSiLU(query, state);
  refineMaxSubtraction(query, state);
  refineRotation(query, state);
  if (auto op = dyn_cast<hlo::ConcatenateOp>(query.op))
    refineRotatedPair(query, op, state);
}
