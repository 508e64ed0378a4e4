//===- Norms.cpp - x / sqrt(mean(x^2) + eps) ------------------------------===//

#include "scalify/Idioms/Idioms.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using namespace scalify::idioms;

// Enough for a mean, an eps and a factor.
static constexpr unsigned kMaxSteps = 5;

/// Returns x of x - mean(x), or null. An estimate does not check the mean.
static Value getUncentred(Value value) {
  auto centred = value.getDefiningOp<SubtractOp>();
  return centred ? peelToSource(centred.getLhs()) : Value();
}

/// True if the squares of `root` are those of `x`. A variance may centre x
/// where the norm does not, or subtract the square of the mean from the mean of
/// the squares of x where the norm centres it.
static bool isRootOf(Value root, Value x, MatchFor purpose) {
  if (isSame(root, x))
    return true;
  if (purpose == MatchFor::Proof)
    return false;
  root = peelToSource(root);
  x = peelToSource(x);
  Value before = getUncentred(root), beforeX = getUncentred(x);
  return root == x || before == x || beforeX == root ||
         (before && before == beforeX);
}

static bool matchSum(const RowValue &row, ReduceOp sum, Norm &norm) {
  Value terms = sum.getInputs()[0];
  Value product = row.purpose == MatchFor::Proof ? skipConverts(terms)
                                                 : peelToSource(terms);
  norm.squares = product.getDefiningOp<MulOp>();
  if (!norm.squares || !row.getReduction(terms, ReductionKind::Add) ||
      !isSame(norm.squares.getLhs(), norm.squares.getRhs()) ||
      !isRootOf(norm.squares.getLhs(), norm.input, row.purpose))
    return false;
  norm.sum = sum;
  norm.width = countElements(terms, sum.getDimensions());
  norm.coarsest = coarserOf(
      coarserOf(row.coarsest, getCoarsest(terms)),
      coarserOf(getCoarsest(norm.input), getCoarsest(norm.squares.getLhs())));
  return true;
}

/// Whether `row` is scale * sum(squares) + eps. For a proof all other operands
/// are constants of at least zero.
static bool matchMeanSquare(const RowValue &row, Norm &norm,
                            unsigned steps = kMaxSteps) {
  Operation *op = row.value.getDefiningOp();
  if (auto sum = dyn_cast_or_null<ReduceOp>(op))
    return matchSum(row, sum, norm);
  bool isProof = row.purpose == MatchFor::Proof;
  if (!steps || !isa_and_nonnull<AddOp, SubtractOp, MulOp, DivOp, MaxOp>(op) ||
      (isProof && isa<SubtractOp>(op)))
    return false;
  for (unsigned i : {0, 1}) {
    std::optional<double> c = getSplat(op->getOperand(1 - i));
    if ((i == 1 && isa<SubtractOp, DivOp>(op)) || (isProof && !(c >= 0.0)) ||
        !matchMeanSquare(row.follow(op->getOperand(i)), norm, steps - 1))
      continue;
    double factor = std::fabs(c.value_or(1));
    factor = isa<MulOp>(op) ? factor : isa<DivOp>(op) ? 1 / factor : 1;
    norm.scale *= factor;
    norm.eps *= factor;
    if (isa<AddOp>(op))
      norm.eps += c.value_or(0);
    else if (isa<MaxOp>(op))
      norm.eps = std::max(norm.eps, c.value_or(0));
    return norm.scale > 0 && std::isfinite(norm.scale);
  }
  return false;
}

static bool matchRoot(const RowValue &root, Norm &norm) {
  norm.meanSquare = root.value.getDefiningOp()->getOperand(0);
  return matchMeanSquare(root.follow(norm.meanSquare), norm);
}

/// Whether `row` is rsqrt(mean square), or c / sqrt(mean square), perhaps times
/// other factors.
static bool matchInverseRoot(const RowValue &row, Norm &norm, int depth = 2) {
  Operation *op = row.value.getDefiningOp();
  if (isa_and_nonnull<RsqrtOp>(op))
    return matchRoot(row, norm);
  if (isa_and_nonnull<DivOp>(op)) {
    std::optional<double> numerator = getSplat(op->getOperand(0));
    RowValue root = row.follow(op->getOperand(1));
    if (!numerator || !root.value.getDefiningOp<SqrtOp>() ||
        !matchRoot(root, norm))
      return false;
    norm.numerator = std::fabs(*numerator);
    return true;
  }
  if (!isa_and_nonnull<MulOp>(op) || depth == 0)
    return false;
  for (unsigned i : {0, 1})
    if (matchInverseRoot(row.follow(op->getOperand(i)), norm, depth - 1)) {
      norm.factors.push_back(op->getOperand(1 - i));
      return true;
    }
  return false;
}

std::optional<Norm> idioms::matchNorm(Operation *op, MatchFor purpose) {
  if (!isa<MulOp, DivOp>(op))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    Norm norm;
    norm.input = op->getOperand(i);
    RowValue row(op->getOperand(1 - i), purpose);
    if (isa<MulOp>(op) ? matchInverseRoot(row, norm)
                       : i == 0 && row.value.getDefiningOp<SqrtOp>() &&
                             matchRoot(row, norm))
      return norm;
  }
  return std::nullopt;
}
