//===- LoopIndices.cpp - Integers that a loop's iteration determines ------===//

#include "scalify/Dialect/StableHLO/LoopIndices.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Integers.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

LoopIndices::LoopIndices(WhileOp loop)
    : LoopIndices(getTripCount(loop).value_or(1)) {
  if (!getTripCount(loop))
    return;
  Block &body = loop.getBody().front();
  for (auto [init, arg, next] :
       llvm::zip(loop->getOperands(), body.getArguments(),
                 body.getTerminator()->getOperands())) {
    std::optional<int64_t> step = getCarryStep(arg, next);
    if (std::optional<LoopIndex> first = LoopIndices(1).find(init);
        step && first)
      set(arg, {first->start, *step});
  }
}

int64_t LoopIndices::least(LoopIndex index) const {
  return std::min(index.start, index.start + index.step * (trips - 1));
}

int64_t LoopIndices::most(LoopIndex index) const {
  return std::max(index.start, index.start + index.step * (trips - 1));
}

/// Returns the index if the value's type holds it in all iterations.
std::optional<LoopIndex> LoopIndices::fit(Value value, LoopIndex index) const {
  // Far from the limits of int64_t, so that products with the trips are exact.
  constexpr int64_t kLimit = int64_t(1) << 31;
  auto isFar = [](int64_t number) {
    return number < -kLimit || number > kLimit;
  };
  if (trips > kLimit || isFar(index.start) || isFar(index.step))
    return std::nullopt;
  unsigned bits = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  bool isUnsigned = hasUnsignedElements(value.getType());
  int64_t low = isUnsigned ? 0 : llvm::minIntN(bits);
  int64_t high = bits == 64   ? INT64_MAX
                 : isUnsigned ? static_cast<int64_t>(llvm::maxUIntN(bits))
                              : llvm::maxIntN(bits);
  if (least(index) < low || most(index) > high)
    return std::nullopt;
  return index;
}

std::optional<LoopIndex> LoopIndices::find(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() != 1 ||
      !type.getElementType().isInteger() || type.getElementType().isInteger(1))
    return std::nullopt;
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<LoopIndex> index;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    if (hasUnsignedElements(type))
      constant = constant.zext(constant.getBitWidth() + 1);
    if (constant.getSignificantBits() <= 62)
      index = LoopIndex{constant.getSExtValue(), 0};
  } else if (Operation *op = value.getDefiningOp()) {
    index = compute(op);
  }
  if (index)
    index = fit(value, *index);
  return known[value] = index;
}

/// Returns the result of a comparison that is the same in all iterations.
std::optional<bool> LoopIndices::compare(Operation *op) {
  auto comparison = dyn_cast_or_null<CompareOp>(op);
  if (!comparison)
    return std::nullopt;
  std::optional<LoopIndex> lhs = find(comparison.getLhs());
  std::optional<LoopIndex> rhs = find(comparison.getRhs());
  if (!lhs || !rhs)
    return std::nullopt;
  LoopIndex gap = {lhs->start - rhs->start, lhs->step - rhs->step};
  auto decide = [](bool always, bool never) {
    return always  ? std::optional<bool>(true)
           : never ? std::optional<bool>(false)
                   : std::nullopt;
  };
  switch (comparison.getComparisonDirection()) {
  case ComparisonDirection::LT:
    return decide(most(gap) < 0, least(gap) >= 0);
  case ComparisonDirection::LE:
    return decide(most(gap) <= 0, least(gap) > 0);
  case ComparisonDirection::GT:
    return decide(least(gap) > 0, most(gap) <= 0);
  case ComparisonDirection::GE:
    return decide(least(gap) >= 0, most(gap) < 0);
  case ComparisonDirection::EQ:
  case ComparisonDirection::NE:
    return std::nullopt;
  }
  llvm_unreachable("unknown direction");
}

std::optional<LoopIndex> LoopIndices::compute(Operation *op) {
  auto operand = [&](unsigned i) { return find(op->getOperand(i)); };
  auto both = [&](auto join) -> std::optional<LoopIndex> {
    std::optional<LoopIndex> lhs = operand(0), rhs = operand(1);
    if (!lhs || !rhs)
      return std::nullopt;
    return join(*lhs, *rhs);
  };
  using Result = std::optional<LoopIndex>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](AddOp) {
        return both([](LoopIndex a, LoopIndex b) -> Result {
          return LoopIndex{a.start + b.start, a.step + b.step};
        });
      })
      .Case([&](SubtractOp) {
        return both([](LoopIndex a, LoopIndex b) -> Result {
          return LoopIndex{a.start - b.start, a.step - b.step};
        });
      })
      .Case([&](MulOp) {
        return both([](LoopIndex a, LoopIndex b) -> Result {
          if (a.step != 0)
            std::swap(a, b);
          if (a.step != 0)
            return std::nullopt;
          return LoopIndex{a.start * b.start, a.start * b.step};
        });
      })
      .Case<ConvertOp, ReshapeOp, BroadcastInDimOp>(
          [&](auto) { return operand(0); })
      .Case([&](SelectOp select) -> Result {
        std::optional<bool> isTrue = compare(select.getPred().getDefiningOp());
        if (!isTrue)
          return std::nullopt;
        return find(*isTrue ? select.getOnTrue() : select.getOnFalse());
      })
      .Default([](Operation *) { return std::nullopt; });
}
