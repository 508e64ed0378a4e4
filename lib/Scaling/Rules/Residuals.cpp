//===- Residuals.cpp - What a prediction lacks of its target --------------===//
//
// A squared loss trains a prediction towards data. Before training the two are
// independent and their variances add; afterwards they all but cancel. Between
// them the residual has the size of the data: what it is of a model that
// predicts nothing.
//
//===----------------------------------------------------------------------===//

#include "Residuals.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

/// Whether the value is squared: multiplied by itself.
static bool isSquared(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isa<stablehlo::MulOp>(user) &&
           user->getOperand(0) == user->getOperand(1);
  });
}

/// Whether an argument could be a parameter; only those of main tell.
static bool mayBeParameter(BlockArgument argument) {
  if (stablehlo::isControlFlow(argument.getOwner()->getParentOp()))
    return false;
  RoleAttr role = getRoleAttr(argument);
  return !role || isOneOf(role, {Role::Param, Role::Master});
}

/// Whether the value could depend on a parameter.
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

bool scalify::matchResidual(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<stablehlo::SubtractOp>(query.op) ||
      !isSquared(query.op->getResult(0)))
    return false;
  std::optional<unsigned> target = getTargetOperand(query.op);
  if (!target)
    return false;
  const ScaleFacts &data = query.operand(*target);
  if (data.constant || data.anyScale || data.masked || !(data.rms > 0))
    return false;
  out = ScaleFacts::gaussian(data.rms);
  out.rule = "residual: the size of the data";
  return true;
}
