//===- LogAddExp.cpp - Rules of logaddexp ---------------------------------===//
//
// log(e^a + e^b) is max(a, b) + log1p(exp(-|a - b|)). Its gradients are the
// shares exp(a - log(e^a + e^b)) and that of b, which sum to one. Recurrences
// over log-probabilities use it (CTC, HMMs), with a large negative number for
// states that are not yet possible: with moments of -1e5 the exponentials of
// independent operands would be at 2^-115 or 2^118. Both exponentials lie
// between 0 and 1, with no evidence where: the moments are those of a uniform
// distribution.
//
//===----------------------------------------------------------------------===//

#include "LogAddExp.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static ScaleFacts shareFacts() {
  ScaleFacts facts = ScaleFacts::moments(0.5, 1.0 / 12);
  facts.sign = Sign::NonNegative;
  facts.bound = 1;
  return facts;
}

bool scalify::matchLogAddExpTail(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  auto negate = query.op->getOperand(0).getDefiningOp<NegOp>();
  auto magnitude =
      negate ? negate.getOperand().getDefiningOp<AbsOp>() : AbsOp();
  if (!magnitude || !magnitude.getOperand().getDefiningOp<SubtractOp>() ||
      llvm::none_of(query.op->getUsers(), llvm::IsaPred<Log1pOp>))
    return false;
  out = shareFacts();
  out.rule = "exp(-|a - b|): at most 1";
  return true;
}

/// Looks through a select that replaces infinite values. A loop may carry the
/// replacement, 0.
static Value skipReplacement(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  auto isInfinite =
      select ? select.getPred().getDefiningOp<CompareOp>() : CompareOp();
  if (isInfinite && isInfinite.getLhs() == select.getOnFalse() &&
      isInfinite.getComparisonDirection() == ComparisonDirection::EQ)
    return select.getOnFalse();
  return value;
}

/// Returns the maximum of the two operands of logaddexp, or null.
static MaxOp getLogAddExp(Value value) {
  // For NaN logaddexp adds its operands.
  if (auto select = value.getDefiningOp<SelectOp>())
    value = select.getOnFalse();
  auto sum = value.getDefiningOp<AddOp>();
  for (unsigned i : {0, 1}) {
    auto tail =
        sum ? sum->getOperand(1 - i).getDefiningOp<Log1pOp>() : Log1pOp();
    auto largest = sum ? sum->getOperand(i).getDefiningOp<MaxOp>() : MaxOp();
    if (!tail || !largest || !tail->getOperand(0).getDefiningOp<ExpOp>())
      continue;
    // With a constant operand (softplus) the share has the moments of the
    // other.
    if (llvm::none_of(largest->getOperands(), [](Value operand) {
          return matchPattern(operand, m_Constant());
        }))
      return largest;
  }
  return {};
}

bool scalify::matchLogAddExpShare(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<ExpOp>(query.op))
    return false;
  auto subtract = query.op->getOperand(0).getDefiningOp<SubtractOp>();
  MaxOp pair =
      subtract ? getLogAddExp(skipReplacement(subtract.getRhs())) : MaxOp();
  if (!pair || !llvm::is_contained(pair->getOperands(),
                                   skipReplacement(subtract.getLhs())))
    return false;
  out = shareFacts();
  out.rule = "share of logaddexp: at most 1";
  return true;
}
