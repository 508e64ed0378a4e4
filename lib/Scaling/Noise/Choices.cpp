//===- Choices.cpp - Indices that values choose ---------------------------===//

#include "Choices.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the density at 0 of the distance between the largest two of `count`
/// normal values of variance 1: count (count - 1) times the integral of
/// pdf(x)^2 cdf(x)^(count - 2) (David and Nagaraja, Order Statistics, 2.3).
static double getGapDensity(double count) {
  // The integrand is smooth, and below 1e-27 beyond the ends.
  constexpr double step = 1.0 / 16, end = 8;
  double sum = 0;
  for (double x = -end; x <= end; x += step) {
    double density = std::exp(-0.5 * x * x) / std::sqrt(2 * llvm::numbers::pi);
    double below = 0.5 * std::erfc(-x / std::sqrt(2.0));
    sum += step * density * density * std::pow(below, count - 2);
  }
  return count * (count - 1) * sum;
}

/// True if the value is the same all along a dimension.
static bool isEvenAlong(Value value, int64_t dimension) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  if (!broadcast)
    return false;
  ArrayRef<int64_t> dims = broadcast.getBroadcastDimensions();
  const auto *at = llvm::find(dims, dimension);
  auto type = cast<RankedTensorType>(broadcast.getOperand().getType());
  return at == dims.end() || type.getDimSize(at - dims.begin()) == 1;
}

/// Returns the terms of a value that vary along a dimension.
static SmallVector<Value> collectTerms(Value value, int64_t dimension) {
  SmallVector<Value> terms;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i)
    if (Value part = reached[i];
        isa_and_present<AddOp, SubtractOp>(part.getDefiningOp()))
      reached.insert_range(part.getDefiningOp()->getOperands());
    else if (!isEvenAlong(part, dimension))
      terms.push_back(part);
  return terms;
}

std::optional<Choice> scalify::matchChoice(Operation *op,
                                           const ScaleAnalysis &facts) {
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || op->getNumResults() != 2 || reduce.getDimensions().size() != 1)
    return std::nullopt;
  Value values = op->getOperand(0);
  bool hasPlaces =
      lookThrough(op->getOperand(1), Move::Reshape | Move::Broadcast)
          .getDefiningOp<IotaOp>();
  if (!hasPlaces || !isFloatTensor(values.getType()) ||
      !isIndex(op->getResult(1).getType()))
    return std::nullopt;
  int64_t dimension = reduce.getDimensions().front();
  int64_t count =
      cast<RankedTensorType>(values.getType()).getDimSize(dimension);
  Choice choice{op->getResult(1), collectTerms(values, dimension), 0};
  double variance = 0;
  for (Value term : choice.terms)
    if (const ScaleFacts &x = facts.lookup(term); !x.anyScale)
      variance += x.variance();
  if (variance <= 0 || count < 2)
    return std::nullopt;
  choice.flipRate = getGapDensity(static_cast<double>(count)) /
                    std::sqrt(llvm::numbers::pi * variance);
  return choice;
}

bool scalify::isIndex(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<IntegerType>(tensor.getElementType()) &&
         !tensor.getElementType().isInteger(1);
}

/// Returns the share of a one-hot row that a wrong index changes.
static double getOneHotShare(CompareOp compare, Value index) {
  Value other = compare.getLhs() == index ? compare.getRhs() : compare.getLhs();
  auto iota = lookThrough(other, Move::Reshape | Move::Broadcast)
                  .getDefiningOp<IotaOp>();
  if (!iota)
    return 1;
  auto type = cast<RankedTensorType>(iota.getType());
  return 2.0 / static_cast<double>(type.getDimSize(iota.getIotaDimension()));
}

/// True for a table of positions, or a number that all indices have in common.
static bool isFixed(Value value) {
  value = lookThrough(value, Move::Layout | Move::Broadcast | Move::Slice);
  return isa_and_present<ConstantOp, IotaOp>(value.getDefiningOp());
}

/// Returns the gain from one index to another. A sum of choices, such as the
/// number of earlier tokens with the same expert, has none: a choice that flips
/// moves all later tokens to other slots, where the same happens to them.
static double getArithmeticGain(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isa<AddOp, SubtractOp, MulOp, MinOp, MaxOp>(op))
    return isFixed(op->getOperand(1 - operand.getOperandNumber()));
  if (isa<SelectOp>(op))
    return 0.5; // as often one operand as the other
  return isa<ClampOp, ConvertOp, ReshapeOp, TransposeOp, SliceOp,
             BroadcastInDimOp, ConcatenateOp, DynamicSliceOp>(op);
}

/// True if an index is the place of the largest or smallest of the table's own
/// rows. It flips where two entries are nearly equal, so that the other one
/// differs by no more than the error.
static bool isChosenFrom(Value index, Value table) {
  constexpr Move moves = Move::Layout | Move::Broadcast | Move::Cast;
  llvm::SetVector<Value> reached;
  reached.insert(index);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (auto reduce = dyn_cast_or_null<ReduceOp>(op)) {
      if (lookThrough(reduce->getOperand(0), moves) ==
          lookThrough(table, moves))
        return true;
    } else if (op) {
      reached.insert_range(
          llvm::make_filter_range(op->getOperands(), [](Value operand) {
            return isIndex(operand.getType());
          }));
    }
  }
  return false;
}

double scalify::getIndexGain(OpOperand &operand, OpResult result,
                             const ScaleAnalysis &facts) {
  Operation *op = operand.getOwner();
  Type type = result.getType();
  if (isIndex(type))
    return getArithmeticGain(operand);
  if (auto compare = dyn_cast<CompareOp>(op)) {
    ComparisonDirection direction = compare.getComparisonDirection();
    bool isEquality = direction == ComparisonDirection::EQ ||
                      direction == ComparisonDirection::NE;
    return isEquality ? getOneHotShare(compare, operand.get()) : 0;
  }
  if (!isFloatTensor(type))
    return 0;
  // Two entries that are drawn alike differ by twice their variance.
  auto getDistance = [&](Value table) {
    const ScaleFacts &x = facts.lookup(table);
    return x.anyScale ? 0 : 2 * x.variance();
  };
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<GatherOp, DynamicSliceOp>([&](auto) {
        Value table = op->getOperand(0);
        return isChosenFrom(operand.get(), table) ? 0 : getDistance(table);
      })
      .Case<ScatterOp>([&](ScatterOp scatter) {
        Value updates = op->getOperands().back();
        return getDistance(updates) * countElements(updates) /
               countElements(result);
      })
      .Default([](auto) { return 0.0; });
}
