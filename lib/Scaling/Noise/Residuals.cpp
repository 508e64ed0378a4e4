//===- Residuals.cpp - Residuals of regressions ---------------------------===//

#include "Residuals.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Rows.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

static Value getProductRoot(Value value) {
  return lookThrough(value, Move::Layout | Move::Cast | Move::Barrier);
}

namespace {
enum class Training { Trained, Untrained, Unknown };
} // namespace

/// Tells whether the backward computes a gradient of the argument: a product of
/// the argument's size that reads the partner of a forward product of it. Of
/// several arguments with one partner, some may have none, as the first weights
/// of a target network.
static Training getTraining(BlockArgument argument) {
  double size = countElements(argument);
  Training found = Training::Unknown;
  for (OpOperand *use : findProducts(argument)) {
    Operation *product = use->getOwner();
    if (getPhase(product) != Phase::Forward || use->getOperandNumber() > 1)
      continue;
    int64_t numForward = 0, numBackward = 0;
    Value partner =
        getProductRoot(product->getOperand(1 - use->getOperandNumber()));
    for (OpOperand *other : findProducts(partner)) {
      Operation *reader = other->getOwner();
      if (other->getOperandNumber() > 1)
        continue;
      if (getPhase(reader) == Phase::Backward)
        numBackward += countElements(reader->getResult(0)) == size;
      else
        numForward +=
            countElements(reader->getOperand(1 - other->getOperandNumber())) ==
            size;
    }
    if (numBackward >= numForward)
      return Training::Trained;
    if (numBackward == 0)
      found = Training::Untrained;
  }
  return found;
}

/// True if the value may depend on a parameter; if `trained`, on one that is
/// trained. A choice by a parameter (an index, a mask) is no dependence: no
/// gradient flows through it, as from the actions of double Q-learning. Only
/// arguments of main have roles.
static bool mayReadParameters(Value value, bool trained) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  bool readsUnknown = false, readsUntrained = false;
  for (size_t i = 0; i < seen.size(); ++i) {
    seen.insert_range(llvm::make_filter_range(
        stablehlo::getSources(seen[i]), [](Value source) {
          return !getElementTypeOrSelf(source.getType()).isInteger();
        }));
    auto argument = dyn_cast<BlockArgument>(seen[i]);
    if (!argument ||
        stablehlo::isControlFlow(argument.getOwner()->getParentOp()))
      continue;
    RoleAttr role = getRoleAttr(argument);
    if (role && !isOneOf(role, {Role::Param, Role::Master}))
      continue;
    Training training = trained ? getTraining(argument) : Training::Trained;
    if (training == Training::Trained)
      return true;
    (training == Training::Unknown ? readsUnknown : readsUntrained) = true;
  }
  return readsUnknown && !readsUntrained;
}

/// Operands of dots have hints of their scales.
static Value getFactor(Value value) {
  if (auto hint = value.getDefiningOp<ScaleHintOp>())
    value = hint.getValue();
  return lookThrough(value, Move::Layout | Move::Barrier);
}

bool scalify::isSquare(Operation *op) {
  if (isa<stablehlo::MulOp>(op))
    return getFactor(op->getOperand(0)) == getFactor(op->getOperand(1));
  auto dot = dyn_cast<stablehlo::DotGeneralOp>(op);
  if (!dot)
    return false;
  auto dims = dot.getDotDimensionNumbers();
  int64_t bound = dims.getLhsBatchingDimensions().size() +
                  dims.getLhsContractingDimensions().size();
  return bound == cast<RankedTensorType>(dot.getLhs().getType()).getRank() &&
         getFactor(dot.getLhs()) == getFactor(dot.getRhs());
}

/// True if ops take the size of the value, and not the value: it is an error.
static bool isMeasured(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<stablehlo::ReshapeOp, stablehlo::TransposeOp, ScaleHintOp>(user))
      return isMeasured(user->getResult(0));
    return isa<stablehlo::AbsOp>(user) || isSquare(user);
  });
}

std::optional<unsigned> scalify::getTargetOperand(Operation *op) {
  // A sum may be one of anything, as a bias or a mask.
  bool isSum = isa<stablehlo::AddOp>(op) && isMeasured(op->getResult(0));
  if (!isSum && !isa<stablehlo::SubtractOp>(op))
    return std::nullopt;
  // Without a visible gradient, as of a rematerialised layer, roles decide.
  for (bool trained : {true, false}) {
    bool first = mayReadParameters(op->getOperand(0), trained);
    if (first != mayReadParameters(op->getOperand(1), trained))
      return first ? 1 : 0;
  }
  return std::nullopt;
}
