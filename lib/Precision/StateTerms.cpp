//===- StateTerms.cpp - What a step computes state from -------------------===//

#include "StateTerms.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

/// True if all elements of the tensor are one number.
static bool isScalar(Value value) {
  value = lookThrough(value, Move::Broadcast | Move::Reshape | Move::Convert);
  if (auto constant = value.getDefiningOp<stablehlo::ConstantOp>())
    return isa<SplatElementsAttr>(constant.getValue());
  return cast<ShapedType>(value.getType()).getRank() == 0;
}

/// True if the op computes x^0.5 or x^-0.5.
static bool isRootOf(Operation *op, Value value) {
  if (isa<stablehlo::SqrtOp, stablehlo::RsqrtOp>(op))
    return true;
  auto power = dyn_cast<stablehlo::PowOp>(op);
  if (!power || power.getLhs() != value)
    return false;
  Value exponent = lookThrough(power.getRhs(), Move::Broadcast);
  DenseFPElementsAttr known;
  return matchPattern(exponent, m_Constant(&known)) && known.isSplat() &&
         std::abs(known.getSplatValue<APFloat>().convertToDouble()) == 0.5;
}

SmallVector<Value> scalify::findAlternatives(Value value, bool areWhole) {
  llvm::SetVector<Value> found;
  found.insert(value);
  for (size_t i = 0; i < found.size(); ++i) {
    auto result = dyn_cast<OpResult>(found[i]);
    Operation *op = result ? result.getOwner() : nullptr;
    if (isa_and_present<stablehlo::ConvertOp, stablehlo::ReshapeOp,
                        stablehlo::OptimizationBarrierOp>(op))
      found.insert(op->getOperand(result.getResultNumber()));
    else if (isa_and_present<stablehlo::SelectOp>(op) &&
             (!areWhole || isScalar(op->getOperand(0))))
      found.insert(op->operand_begin() + 1, op->operand_end());
    else if (isa_and_present<stablehlo::CaseOp, stablehlo::IfOp>(op))
      for (Region &region : op->getRegions())
        found.insert(region.front().getTerminator()->getOperand(
            result.getResultNumber()));
  }
  return found.takeVector();
}

/// True if the step takes the value's root, perhaps after a scalar corrects it
/// or keeps it from zero, or after a running maximum.
static bool reachesRoot(Value value, int depth = 8) {
  return depth > 0 && llvm::any_of(value.getUsers(), [&](Operation *user) {
           if (isRootOf(user, value))
             return true;
           if (isa<stablehlo::ConvertOp, stablehlo::ReshapeOp,
                   stablehlo::MaxOp>(user))
             return reachesRoot(user->getResult(0), depth - 1);
           if (!isa<stablehlo::AddOp, stablehlo::MulOp, stablehlo::DivOp>(user))
             return false;
           Value other = user->getOperand(user->getOperand(0) == value ? 1 : 0);
           if (isa<stablehlo::DivOp>(user) && user->getOperand(0) != value)
             return false;
           return other != value && isScalar(other) &&
                  reachesRoot(user->getResult(0), depth - 1);
         });
}

/// True if the step takes the root of a difference of which the value, or its
/// square, is one part.
static bool entersDifference(Value value, int depth = 8) {
  return depth > 0 && llvm::any_of(value.getUsers(), [&](Operation *user) {
           if (isa<stablehlo::SubtractOp>(user))
             return !isScalar(user->getOperand(0)) &&
                    !isScalar(user->getOperand(1)) &&
                    reachesRoot(user->getResult(0));
           bool isFactor =
               isa<stablehlo::MulOp, stablehlo::DivOp>(user) &&
               llvm::all_of(user->getOperands(), [&](Value operand) {
                 return operand == value || isScalar(operand);
               });
           return (isFactor ||
                   isa<stablehlo::ConvertOp, stablehlo::ReshapeOp>(user)) &&
                  entersDifference(user->getResult(0), depth - 1);
         });
}

namespace {
/// The terms of a sum: with any sign, none below zero, or none below zero and
/// one of them a square.
enum class Terms { Signed, NonNegative, Square };
} // namespace

static Terms join(Terms lhs, Terms rhs) {
  if (lhs == Terms::Signed || rhs == Terms::Signed)
    return Terms::Signed;
  return std::max(lhs, rhs);
}

static bool addsOrTakesMaximum(stablehlo::ReduceOp reduce) {
  return isa<stablehlo::AddOp, stablehlo::MaxOp>(
      reduce->getRegion(0).front().front());
}

/// Returns the terms of which the optimizer computes a value linearly. Of
/// squares it may take the root, as of factored second moments, which are means
/// of squares; `own` is the state's old value. Scalars of run time count as
/// non-negative.
static Terms getTerms(Value value, Value own, int depth = 16) {
  if (value == own)
    return Terms::NonNegative;
  DenseFPElementsAttr known;
  if (matchPattern(value, m_Constant(&known)))
    return known.isSplat() && !known.getSplatValue<APFloat>().isNegative()
               ? Terms::NonNegative
               : Terms::Signed;
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || isInPhase(op, Phase::Backward))
    return Terms::Signed;
  auto of = [&](unsigned operand) {
    return getTerms(op->getOperand(operand), own, depth - 1);
  };
  auto isFactor = [&](unsigned operand) {
    Value factor = op->getOperand(operand);
    DenseFPElementsAttr number;
    return isScalar(factor) &&
           (!matchPattern(lookThrough(factor, Move::Broadcast),
                          m_Constant(&number)) ||
            of(operand) != Terms::Signed);
  };
  if (isa<stablehlo::MulOp>(op) && op->getOperand(0) == op->getOperand(1))
    return Terms::Square;
  if (isa<stablehlo::MulOp, stablehlo::DivOp>(op) && isFactor(1))
    return of(0);
  if (isa<stablehlo::MulOp>(op) && isFactor(0))
    return of(1);
  if (isa<stablehlo::AddOp, stablehlo::MaxOp>(op))
    return join(of(0), of(1));
  if (isa<stablehlo::SelectOp>(op))
    return join(of(1), of(2));
  if (isa<stablehlo::AbsOp>(op))
    return Terms::NonNegative;
  auto reduce = dyn_cast<stablehlo::ReduceOp>(op);
  bool isMoved = isa<stablehlo::ConvertOp, stablehlo::ReshapeOp,
                     stablehlo::BroadcastInDimOp>(op);
  return isMoved || (reduce && addsOrTakesMaximum(reduce)) ? of(0)
                                                           : Terms::Signed;
}

bool scalify::isMeanOfSquares(Value own, Value written) {
  SmallVector<Value> values = findAlternatives(written);
  return llvm::any_of(values,
                      [](Value value) {
                        return !isa<BlockArgument>(value) && reachesRoot(value);
                      }) ||
         llvm::any_of(values, [&](Value value) {
           return getTerms(value, own) == Terms::Square;
         });
}

bool scalify::entersVariance(Value written) {
  return llvm::any_of(findAlternatives(written), [](Value value) {
    return !isa<BlockArgument>(value) && entersDifference(value);
  });
}

/// True if a scalar follows from integers, booleans and constants alone: a
/// choice, or a count.
static bool isChoice(Value value, int depth = 8) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() != 0 || depth == 0)
    return false;
  Operation *op = value.getDefiningOp();
  if (isa<IntegerType>(type.getElementType()) ||
      isa_and_present<stablehlo::ConstantOp>(op))
    return true;
  return isa_and_present<stablehlo::ConvertOp, stablehlo::AddOp,
                         stablehlo::SubtractOp, stablehlo::MulOp,
                         stablehlo::SelectOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isChoice(operand, depth - 1);
         });
}

/// Returns the other factor of a value that a choice scales; null for others.
static Value getChosen(Value value) {
  auto product = value.getDefiningOp<stablehlo::MulOp>();
  for (unsigned operand = 0; product && operand != 2; ++operand) {
    Value factor = lookThrough(product->getOperand(operand),
                               Move::Broadcast | Move::Reshape);
    if (!factor.getDefiningOp<stablehlo::ConstantOp>() && isChoice(factor))
      return product->getOperand(1 - operand);
  }
  return {};
}

bool scalify::isReset(Value own, Value written) {
  bool isZeroed = false, isAddedTo = false;
  for (Value value : findAlternatives(written, /*areWhole=*/true)) {
    Value chosen = getChosen(value);
    isZeroed |= chosen || matchPattern(value, m_AnyZeroFloat());
    auto sum = (chosen ? chosen : value).getDefiningOp<stablehlo::AddOp>();
    isAddedTo |= sum && llvm::is_contained(sum->getOperands(), own);
  }
  return isZeroed && isAddedTo;
}

SmallVector<Value> scalify::findTerms(Value own, Value written,
                                      const llvm::DenseSet<Value> &known) {
  llvm::SetVector<Value> seen, terms;
  seen.insert(written);
  for (size_t i = 0; i < seen.size(); ++i) {
    Value term = seen[i];
    Operation *op = term.getDefiningOp();
    bool isEnd = !op || term == own || known.contains(term) ||
                 isInPhase(op, Phase::Backward);
    if (!isEnd && isa<stablehlo::AddOp, stablehlo::SubtractOp>(op))
      seen.insert(op->operand_begin(), op->operand_end());
    else if (!isEnd && isa<stablehlo::SelectOp>(op))
      seen.insert(op->operand_begin() + 1, op->operand_end());
    else if (!isEnd && isa<stablehlo::ConvertOp, stablehlo::ReshapeOp>(op))
      seen.insert(op->getOperand(0));
    else if (!isEnd && isa<stablehlo::MulOp, stablehlo::DivOp>(op) &&
             isScalar(op->getOperand(1)))
      seen.insert(op->getOperand(0));
    else if (!isEnd && isa<stablehlo::MulOp>(op) && isScalar(op->getOperand(0)))
      seen.insert(op->getOperand(1));
    else
      terms.insert(term);
  }
  return terms.takeVector();
}

/// True if a value is an argument, or what selects and branches choose among
/// arguments.
static bool isOfArguments(Value value) {
  return llvm::all_of(findAlternatives(value), [](Value one) {
    return isa<BlockArgument>(one) ||
           isa<stablehlo::SelectOp, stablehlo::CaseOp, stablehlo::IfOp,
               stablehlo::ConvertOp, stablehlo::ReshapeOp,
               stablehlo::OptimizationBarrierOp>(one.getDefiningOp());
  });
}

/// True for a value of arguments that the step does not change, but for a
/// choice such as that of the first weights at the first step.
static bool isKept(func::FuncOp main, Value own, Value value) {
  Block &block = main.getBody().front();
  return isOfArguments(value) &&
         llvm::any_of(findAlternatives(value), [&](Value one) {
           auto argument = dyn_cast<BlockArgument>(one);
           if (!argument || one == own || argument.getOwner() != &block)
             return false;
           std::optional<unsigned> result =
               getAliasedResult(main, argument.getArgNumber());
           return !result ||
                  isOfArguments(block.getTerminator()->getOperand(*result));
         });
}

bool scalify::entersDistance(func::FuncOp main, Value own, Value written) {
  SmallVector<Value> values = findAlternatives(written);
  values.push_back(own);
  return llvm::any_of(values, [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return isa<stablehlo::SubtractOp>(user) &&
             isInPhase(user, Phase::Optimizer) &&
             llvm::any_of(user->getOperands(), [&](Value operand) {
               return operand != value && isKept(main, own, operand);
             });
    });
  });
}
