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
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
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
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), kRoleAttr)
                       : StringAttr();
  return !role || role.getValue() == "param";
}

/// Whether the value could depend on a parameter.
static bool mayReadParameters(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    Operation *op = seen[i].getDefiningOp();
    if (!op) {
      if (mayBeParameter(cast<BlockArgument>(seen[i])))
        return true;
      continue;
    }
    seen.insert(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), seen);
  }
  return false;
}

bool scalify::matchResidual(const FactsQuery &query, ScaleFacts &out) {
  if (!isa<stablehlo::SubtractOp>(query.op) ||
      !isSquared(query.op->getResult(0)))
    return false;
  bool reads[2] = {mayReadParameters(query.op->getOperand(0)),
                   mayReadParameters(query.op->getOperand(1))};
  const ScaleFacts &data = query.operand(reads[0] ? 1 : 0);
  if (reads[0] == reads[1] || data.constant || data.anyScale || data.masked ||
      !(data.rms > 0))
    return false;
  out = ScaleFacts::gaussian(data.rms);
  out.rule = "residual: the size of the data";
  return true;
}
