//===- NoiseGains.cpp - Gains of ops for errors ---------------------------===//

#include "NoiseGains.h"

#include "../Rules/Moments.h"
#include "Choices.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Idioms/Idioms.h"
#include "scalify/Scaling/NoiseAnalysis.h"
#include "scalify/Scaling/Rules.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

double scalify::getRoundingNoise(FloatType format) {
  unsigned bits = format.getFPMantissaWidth() - 1;
  return std::ldexp(std::log(2.0) / 1.5 / 12, -2 * static_cast<int>(bits));
}

static double square(double x) { return x * x; }

/// Returns the share of the result that the operand fills.
static double getShare(Value operand, Value result) {
  return countElements(operand) / countElements(result);
}

static double getReduceGain(ReduceOp op, unsigned index, OpResult result) {
  if (index != result.getResultNumber())
    return 0;
  Operation *body = getSingleBodyOp(op.getBody());
  return isa_and_present<AddOp>(body)
             ? countElements(op->getOperand(index)) / countElements(result)
             : 1;
}

/// Returns how much smaller a result is than its operands imply. The gradient
/// of a softmax's scores has no mean: its error has none either.
static double getCancellation(const ScaleFacts &y, double expected) {
  return y.anyScale || expected <= 0 ? 1.0
                                     : std::min(1.0, square(y.rms) / expected);
}

static double getSumGain(Operation *op, unsigned index, const ScaleFacts &y,
                         const ScaleAnalysis &facts) {
  // Softmax and its like are invariant to what is subtracted from a row.
  if (index == 1 && isa<SubtractOp>(op) &&
      idioms::matchMaxSubtraction(op->getResult(0), MatchFor::Estimate))
    return 0;
  const ScaleFacts &a = facts.lookup(op->getOperand(0));
  const ScaleFacts &b = facts.lookup(op->getOperand(1));
  double mean = isa<SubtractOp>(op) ? a.mean - b.mean : a.mean + b.mean;
  return getCancellation(y, a.variance() + b.variance() + square(mean));
}

bool scalify::hasNoise(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return false;
  Type element = tensor.getElementType();
  return isa<FloatType, ComplexType, IntegerType>(element);
}

static bool isBoolean(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType().isInteger(1);
}

double scalify::getFlipRate(Operation *op, const ScaleAnalysis &facts) {
  if (!isa<CompareOp, SignOp>(op) ||
      !isFloatTensor(op->getOperand(0).getType()))
    return 0;
  if (auto compare = dyn_cast<CompareOp>(op))
    if (compare.getComparisonDirection() == ComparisonDirection::EQ ||
        compare.getComparisonDirection() == ComparisonDirection::NE)
      return 0;
  double mean = 0, variance = 0, side = 1;
  for (Value operand : op->getOperands()) {
    const ScaleFacts &x = facts.lookup(operand);
    if (!x.anyScale) {
      mean += side * x.mean;
      variance += x.variance();
    }
    side = -1;
  }
  if (variance <= 0)
    return 0;
  return std::exp(-0.5 * square(mean) / variance) /
         (llvm::numbers::pi * std::sqrt(variance));
}

/// Returns the jump of a choice between a compared value and a constant, where
/// the outcome changes: none for a ReLU, the threshold for x > threshold ? x :
/// 0. Of other choices that depend on the compared values, as in a leaky ReLU,
/// both values are taken to agree there.
static std::optional<double> getJump(SelectOp select,
                                     const ScaleAnalysis &facts) {
  auto compare = select.getPred().getDefiningOp<CompareOp>();
  if (!compare)
    return std::nullopt;
  Value values[] = {select.getOnTrue(), select.getOnFalse()};
  for (unsigned kept : {0, 1})
    for (unsigned side : {0, 1}) {
      Value value = values[kept];
      if (value != compare->getOperand(side) || facts.lookup(value).constant)
        continue;
      std::optional<double> threshold =
                                facts.lookup(compare->getOperand(1 - side))
                                    .constant,
                            other = facts.lookup(values[1 - kept]).constant;
      // A masking constant is no value.
      double jump = threshold && other ? *threshold - *other : 0;
      return std::isfinite(jump) && !facts.lookup(values[1 - kept]).masked
                 ? jump
                 : 0;
    }
  return std::nullopt;
}

/// Returns the gain of a wrong choice between two values.
static double getSelectGain(SelectOp select, const ScaleAnalysis &facts) {
  auto getSquare = [&](Value value) {
    const ScaleFacts &x = facts.lookup(value);
    return x.anyScale || x.masked ? 0 : square(x.rms);
  };
  if (std::optional<double> jump = getJump(select, facts))
    return square(*jump);
  return getSquare(select.getOnTrue()) + getSquare(select.getOnFalse());
}

static double getBooleanGain(OpOperand &operand, OpResult result,
                             const ScaleAnalysis &facts) {
  Operation *op = operand.getOwner();
  if (auto select = dyn_cast<SelectOp>(op))
    return isBoolean(result) ? 1 : getSelectGain(select, facts);
  return isa<AndOp, OrOp, NotOp, ConvertOp, ReshapeOp, TransposeOp, SliceOp,
             BroadcastInDimOp, DynamicSliceOp, ConcatenateOp,
             DynamicUpdateSliceOp>(op)
             ? 1
             : 0;
}

double scalify::getNoiseGain(OpOperand &operand, OpResult result,
                             const ScaleAnalysis &facts) {
  Operation *op = operand.getOwner();
  if (!hasNoise(operand.get().getType()) || !hasNoise(result.getType()))
    return 0;
  if (isIndex(operand.get().getType()))
    return getIndexGain(operand, result, facts);
  if (isBoolean(operand.get()))
    return getBooleanGain(operand, result, facts);
  // A value that is converted to an integer may round anywhere.
  if (isIndex(result.getType()))
    return 0;
  if (isBoolean(result) || isa<SignOp>(op))
    return isa<CompareOp, SignOp>(op) ? 1 : 0;
  unsigned index = operand.getOperandNumber();
  const ScaleFacts &x = facts.lookup(operand.get());
  const ScaleFacts &y = facts.lookup(result);
  if (x.anyScale || x.rms == 0)
    return 0;
  double relative = y.anyScale ? 0 : square(y.rms / x.rms);
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<IsFiniteOp, FloorOp, CeilOp, RoundNearestEvenOp>(
          [](auto) { return 0.0; })
      .Case<DotGeneralOp>([&](DotGeneralOp dot) {
        const ScaleFacts &other = facts.lookup(dot->getOperand(1 - index));
        double product =
            countElements(
                dot.getLhs(),
                dot.getDotDimensionNumbers().getLhsContractingDimensions()) *
            square(other.rms);
        return product * getCancellation(y, product * square(x.rms));
      })
      .Case<AddOp, SubtractOp>(
          [&](auto) { return getSumGain(op, index, y, facts); })
      .Case<NegOp, AbsOp, ReshapeOp, TransposeOp, SliceOp, BroadcastInDimOp,
            ConvertOp, ReverseOp>([](auto) { return 1.0; })
      .Case<DynamicSliceOp, GatherOp>(
          [&](auto) { return index == 0 ? 1.0 : 0; })
      .Case<SelectOp>([&](SelectOp select) {
        const ScaleFacts &other = facts.lookup(select->getOperand(3 - index));
        bool isMask = other.anyScale || other.constant;
        return isMask ? std::min(1.0, relative) : 0.5;
      })
      .Case<ConcatenateOp, PadOp>(
          [&](auto) { return getShare(operand.get(), result); })
      .Case<DynamicUpdateSliceOp>([&](DynamicUpdateSliceOp update) {
        double share = getShare(update.getUpdate(), result);
        return index == 0 ? 1 - share : share;
      })
      .Case<ScatterOp>([&](auto) {
        return index == 0 ? 1.0 : getShare(operand.get(), result);
      })
      .Case<ReduceOp>(
          [&](ReduceOp reduce) { return getReduceGain(reduce, index, result); })
      .Case<SortOp, OptimizationBarrierOp>(
          [&](auto) { return index == result.getResultNumber() ? 1.0 : 0; })
      .Default([&](auto) { return relative; });
}
