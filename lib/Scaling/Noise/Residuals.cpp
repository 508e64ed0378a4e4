//===- Residuals.cpp - Residuals of regressions ---------------------------===//

#include "Residuals.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

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

std::optional<unsigned> scalify::getTargetOperand(Operation *op) {
  if (!isa<stablehlo::SubtractOp>(op))
    return std::nullopt;
  bool reads[2] = {mayReadParameters(op->getOperand(0)),
                   mayReadParameters(op->getOperand(1))};
  if (reads[0] == reads[1])
    return std::nullopt;
  return reads[0] ? 1 : 0;
}
