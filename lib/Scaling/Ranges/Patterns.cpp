//===- Patterns.cpp - Bounds from relations between several ops -----------===//
//
// If an op relates a value to a function of the same value, the states of its
// operands alone bound little. These relations are recognised, by structure and
// not by name. Each holds for any value, so a bound proved here assumes nothing
// about it:
//
//   x / sqrt(mean(x^2) + eps)        rows of norm sqrt(n)
//   x - max(x)                       at most 0, and 0 somewhere in each row
//   e / sum(e), e >= 0               convex weights
//   a cos t - b sin t                at most |(a, b)|; the pair keeps its norm
//   x logistic(x)                    at least -0.2785
//
//===----------------------------------------------------------------------===//

#include "Rows.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
namespace hlo = scalify::stablehlo;

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

namespace {
/// The norm of x times a row value is at most bound over `axes`, times the
/// bounds of the row value's other factors.
struct NormMatch {
  AxisSet axes = 0;
  double bound = 0;
  SmallVector<Value, 2> factors;
};

/// A value of at least scale * sum, and at least eps.
struct Affine {
  double scale = 1, eps = 0;
};
} // namespace

// Enough for a mean, an eps and a factor.
static constexpr int kMaxAffine = 6;

/// Follows a row value to a reduction, through additions of constants and
/// multiplications by constants.
static std::optional<Affine> followAffine(RowValue &row) {
  Affine affine;
  for (int depth = 0; depth < kMaxAffine; ++depth) {
    Operation *op = row.value.getDefiningOp();
    if (isa_and_nonnull<hlo::ReduceOp>(op))
      return affine;
    if (!isa_and_nonnull<hlo::AddOp, hlo::DivOp, hlo::MaxOp, hlo::MulOp>(op))
      return std::nullopt;
    unsigned constantAt = getSplat(op->getOperand(1)) ? 1 : 0;
    std::optional<double> c = getSplat(op->getOperand(constantAt));
    if (!c || (constantAt == 0 && isa<hlo::DivOp>(op)) || !(*c >= 0))
      return std::nullopt;
    if (isa<hlo::AddOp>(op))
      affine.eps += *c * affine.scale;
    else if (isa<hlo::MaxOp>(op))
      affine.eps = std::max(affine.eps, *c * affine.scale);
    else
      affine.scale *= isa<hlo::DivOp>(op) ? 1 / *c : *c;
    row = row.follow(op->getOperand(1 - constantAt));
  }
  return std::nullopt;
}

/// Whether `row` is c * sum(x * x) + eps.
static bool matchMeanSquare(RowValue row, Value x, NormMatch &match) {
  std::optional<Affine> affine = followAffine(row);
  if (!affine || !(affine->scale > 0) || std::isinf(affine->scale))
    return false;
  auto reduce = row.value.getDefiningOp<hlo::ReduceOp>();
  Value terms = reduce.getInputs()[0];
  auto square = skipConverts(terms).getDefiningOp<hlo::MulOp>();
  if (!square || !isSame(square.getLhs(), square.getRhs()) ||
      !isSame(square.getLhs(), x) || !row.isSumOver(terms, match.axes))
    return false;
  Type element = cast<ShapedType>(square.getType()).getElementType();
  double n = countElementsAlong(x, match.axes);
  // Squares below the smallest normal number may be lost: eps must be far
  // above.
  if (!(affine->eps >=
        affine->scale * n * Rounding::of(element).normal * 0x1p20))
    return false;
  double rounding = std::max({row.rounding, getRounding(terms), getRounding(x),
                              getRounding(square.getLhs())});
  double slack =
      Rounding::ofSum(cast<ShapedType>(terms.getType()).getElementType(), n,
                      /*wide=*/false) *
      (1 + 8 * rounding);
  match.bound = slack / std::sqrt(affine->scale);
  return true;
}

/// Whether `row` is rsqrt(mean(x^2) + eps), perhaps times other factors.
static bool matchInverseNorm(const RowValue &row, Value x, NormMatch &match,
                             int depth = 2) {
  Operation *op = row.value.getDefiningOp();
  if (!op)
    return false;
  if (isa<hlo::RsqrtOp>(op))
    return matchMeanSquare(row.follow(op->getOperand(0)), x, match);
  if (isa<hlo::DivOp>(op) && getSplat(op->getOperand(0))) {
    RowValue root = row.follow(op->getOperand(1));
    auto sqrt = root.value.getDefiningOp<hlo::SqrtOp>();
    if (!sqrt || !matchMeanSquare(root.follow(sqrt.getOperand()), x, match))
      return false;
    match.bound *= std::fabs(*getSplat(op->getOperand(0)));
    return true;
  }
  if (!isa<hlo::MulOp>(op) || depth == 0)
    return false;
  for (unsigned i : {0, 1})
    if (matchInverseNorm(row.follow(op->getOperand(i)), x, match, depth - 1)) {
      match.factors.push_back(op->getOperand(1 - i));
      return true;
    }
  return false;
}

/// x / |x|: the row's norm is at most sqrt(n).
static void refineNorm(const RangeQuery &query, RangeState &state) {
  NormMatch match;
  Value lhs = query.op->getOperand(0), rhs = query.op->getOperand(1);
  bool found = false;
  unsigned row = 1;
  if (isa<hlo::MulOp>(query.op)) {
    found = matchInverseNorm(RowValue(rhs), lhs, match);
    if (!found) {
      row = 0;
      found = matchInverseNorm(RowValue(lhs), rhs, match);
    }
  } else {
    RowValue root(rhs);
    auto sqrt = root.value.getDefiningOp<hlo::SqrtOp>();
    found = sqrt && matchMeanSquare(root.follow(sqrt.getOperand()), lhs, match);
  }
  if (!found)
    return;
  double bound = match.bound;
  for (Value factor : match.factors)
    bound = product(bound, query.lookup(factor).maxAbs());
  bound *= 1 + 8 * Rounding::of(query.getElement()).relative;
  if (!(bound < state.getL2(match.axes)))
    return;
  state.addL2(match.axes, bound);
  state.lo = std::max(state.lo, -bound);
  state.hi = std::min(state.hi, bound);
  // Without other factors the bound holds for any operands.
  state.sources = match.factors.empty() ? 0 : uint64_t(1) << row;
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Looks through select(is_finite(m), m, 0) if m is finite.
static RowValue skipFiniteSelect(const RangeQuery &query, const RowValue &row) {
  auto select = row.value.getDefiningOp<hlo::SelectOp>();
  if (!select)
    return row;
  auto isFinite = select.getPred().getDefiningOp<hlo::IsFiniteOp>();
  if (isFinite && isFinite.getX() == select.getOnTrue() &&
      query.lookup(select.getOnTrue()).isFinite())
    return row.follow(select.getOnTrue());
  return row;
}

/// Looks through max(c, value), which is no smaller.
static RowValue skipMaximum(RowValue row) {
  while (auto max = row.value.getDefiningOp<hlo::MaxOp>()) {
    if (getSplat(max.getLhs()))
      row = row.follow(max.getRhs());
    else if (getSplat(max.getRhs()))
      row = row.follow(max.getLhs());
    else
      break;
  }
  return row;
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
  Value x = query.op->getOperand(0);
  RowValue row = skipFiniteSelect(query, RowValue(query.op->getOperand(1)));
  RowValue inner = skipMaximum(row);
  AxisSet axes;
  if (!inner.isReductionOf(x, ReductionKind::Max, axes))
    return;
  const RangeState &largest = query[1];
  // In narrow types one side may have been rounded and the other not.
  double rounding = std::max(getRounding(x), inner.rounding);
  double slack = 0;
  Rounding single = Rounding::of(Float32Type::get(x.getContext()));
  if (rounding >
      std::min(Rounding::of(query.getElement()).relative, single.relative))
    slack = 2 * rounding * largest.maxAbs();
  else if (isUnroundedProduct(x))
    slack = 2 * single.relative * largest.maxAbs();
  if (std::isinf(slack))
    return;
  state.hi = std::min(state.hi, slack);
  // With a finite maximum, x is infinite only under a mask: -inf, not NaN.
  if (largest.isFinite() && !query[0].nan &&
      query[0].hi < RangeState::infinity())
    state.nan = false;
  // max(-inf, m) is m.
  bool isAttained = inner.value == row.value;
  if (auto max = row.value.getDefiningOp<hlo::MaxOp>())
    for (Value operand : max->getOperands())
      isAttained |= getSplat(operand) == -RangeState::infinity();
  Value init = inner.value.getDefiningOp<hlo::ReduceOp>().getInitValues()[0];
  if (isAttained && getSplat(init) == -RangeState::infinity())
    state.peak = NormBound{axes, -slack};
}

/// e / sum(e), if the sum is not flushed: weights that sum to one.
static void refineNormalisation(const RangeQuery &query, RangeState &state) {
  Value e = query.op->getOperand(0);
  RowValue row(query.op->getOperand(1));
  AxisSet axes;
  if (!query[0].isNonNegative() || !row.isSumOver(e, axes))
    return;
  Type element = query.getElement();
  if (query[1].lo < Rounding::of(element).normal)
    return;
  auto sum = cast<ShapedType>(row.value.getType()).getElementType();
  double slack =
      Rounding::ofSum(sum, countElementsAlong(e, axes), /*wide=*/false) *
      (1 + 8 * std::max(getRounding(e), row.rounding));
  state.lo = std::max(state.lo, 0.0);
  state.hi = std::min(state.hi, slack);
  state.addL1(axes, slack);
  // An exponential is never negative, for any operand.
  if (isa_and_nonnull<hlo::ExpOp>(skipConverts(e).getDefiningOp()))
    state.sources = 0;
  else
    state.sources = 1;
}

/// x * logistic(x) is at least -0.2785.
static void refineSiLU(const RangeQuery &query, RangeState &state) {
  for (unsigned i : {0, 1}) {
    auto logistic = query.op->getOperand(i).getDefiningOp<hlo::LogisticOp>();
    Value x = query.op->getOperand(1 - i);
    if (!logistic || !isSame(logistic.getOperand(), x))
      continue;
    double rounding =
        std::max({getRounding(x), getRounding(logistic.getOperand()),
                  Rounding::of(query.getElement()).relative});
    state.lo = std::max(state.lo, -0.2785 * (1 + 8 * rounding));
  }
}

void scalify::refineByPattern(const RangeQuery &query, RangeState &state) {
  if (!query.isFloat())
    return;
  if (auto op = dyn_cast<hlo::ReduceOp>(query.op))
    refineMaskedMax(query, op, state);
  if (isa<hlo::MulOp, hlo::DivOp>(query.op))
    refineNorm(query, state);
  if (isa<hlo::DivOp>(query.op))
    refineNormalisation(query, state);
  if (isa<hlo::MulOp>(query.op))
    refineSiLU(query, state);
  if (isa<hlo::SubtractOp>(query.op))
    refineMaxSubtraction(query, state);
  if (isa<hlo::AddOp, hlo::SubtractOp>(query.op))
    refineRotation(query, state);
  if (auto op = dyn_cast<hlo::ConcatenateOp>(query.op))
    refineRotatedPair(query, op, state);
}
