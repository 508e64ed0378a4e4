//===- Residuals.cpp - Residuals of regressions ---------------------------===//

#include "Residuals.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

/// True if an argument may be a parameter. Only arguments of main have roles.
static bool mayBeParameter(BlockArgument argument) {
  if (stablehlo::isControlFlow(argument.getOwner()->getParentOp()))
    return false;
  RoleAttr role = getRoleAttr(argument);
  return !role || isOneOf(role, {Role::Param, Role::Master});
}

/// True if the value may depend on a parameter.
static bool mayReadParameters(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(seen[i]);
    if (argument && mayBeParameter(argument))
      return true;
    seen.insert_range(stablehlo::getSources(seen[i]));
  }
  return false;
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
  bool reads[2] = {mayReadParameters(op->getOperand(0)),
                   mayReadParameters(op->getOperand(1))};
  if (reads[0] == reads[1])
    return std::nullopt;
  return reads[0] ? 1 : 0;
}
