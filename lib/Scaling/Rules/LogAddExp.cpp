//===- LogAddExp.cpp - Sums of two exponentials in logarithms -------------===//
//
// log(e^a + e^b) is max(a, b) + log1p(exp(-|a - b|)), and its gradient the
// shares exp(a - log(e^a + e^b)) and that of b, which add up to one.
// Recurrences over log-probabilities are made of it (CTC, HMMs), where what
// cannot be yet is a large negative number: with moments of -1e5 the
// exponentials of independent operands would be at 2^-115 or 2^118. Both lie
// between 0 and 1, and nothing says where: the moments are those of a uniform
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

/// What is kept unless it is infinite; a loop carries the 0 for that case in.
static Value skipReplacement(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  auto isInfinite =
      select ? select.getPred().getDefiningOp<CompareOp>() : CompareOp();
  if (isInfinite && isInfinite.getLhs() == select.getOnFalse() &&
      isInfinite.getComparisonDirection() == ComparisonDirection::EQ)
    return select.getOnFalse();
  return value;
}

/// The maximum of the two that logaddexp adds, or null.
static MaxOp getLogAddExp(Value value) {
  // For NaN the operands are added.
  if (auto select = value.getDefiningOp<SelectOp>())
    value = select.getOnFalse();
  auto sum = value.getDefiningOp<AddOp>();
  for (unsigned i : {0, 1}) {
    auto tail =
        sum ? sum->getOperand(1 - i).getDefiningOp<Log1pOp>() : Log1pOp();
    auto largest = sum ? sum->getOperand(i).getDefiningOp<MaxOp>() : MaxOp();
    if (!tail || !largest || !tail->getOperand(0).getDefiningOp<ExpOp>())
      continue;
    // Beside a constant (softplus) the share has the moments of its operand.
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
