//===- DotRoles.cpp - Which part of a model a dot belongs to --------------===//
//
// A linear layer multiplies by an argument of the step; attention multiplies
// two activations under batch dimensions. The head is the linear layer from
// whose result the loss is reached without another dot. Its gradients are the
// dots on its weight, and those that meet its input with the same gradient.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DotRoles.h"

#include "scalify/Dialect/Scalify/Scalify.h"

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;

StringRef scalify::stringifyDotRole(DotRole role) {
  switch (role) {
  case DotRole::Linear:
    return "linear";
  case DotRole::Attention:
    return "attention";
  case DotRole::Head:
    return "head";
  }
  return "";
}

Value scalify::getDotOperandRoot(Value operand) {
  while (Operation *op = operand.getDefiningOp()) {
    if (isa<SetScaleOp, stablehlo::ReshapeOp, stablehlo::TransposeOp>(op))
      operand = op->getOperand(0);
    else if (isa<stablehlo::OptimizationBarrierOp>(op))
      operand = op->getOperand(cast<OpResult>(operand).getResultNumber());
    else
      break;
  }
  return operand;
}

bool scalify::isGradient(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase && phase.getValue() == "backward";
}

/// Whether the root is an argument, perhaps converted to a narrower type.
static bool isWeight(Value root) {
  while (auto convert = root.getDefiningOp<stablehlo::ConvertOp>())
    root = getDotOperandRoot(convert.getOperand());
  return isa<BlockArgument>(root);
}

static bool isForward(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return !phase || phase.getValue() == "forward";
}

/// Whether forward ops lead from `value` to another dot.
static bool reachesDot(Value value) {
  SmallVector<Value> worklist{value};
  DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (!isForward(user) || !seen.insert(user).second)
        continue;
      if (isa<DotGeneralOp>(user))
        return true;
      llvm::append_range(worklist, user->getResults());
    }
  }
  return false;
}

void DotRoles::findHeads(FunctionOpInterface func) {
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    Value lhs = getDotOperandRoot(dot.getLhs());
    Value rhs = getDotOperandRoot(dot.getRhs());
    if (!isForward(dot) || isWeight(lhs) == isWeight(rhs) ||
        reachesDot(dot.getResult()))
      return;
    headWeights.insert(isWeight(lhs) ? lhs : rhs);
    headInputs.insert(isWeight(lhs) ? rhs : lhs);
    roles[dot] = DotRole::Head;
  });
  // What multiplies the head's weight in the backward is the gradient of its
  // output.
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    if (isForward(dot))
      return;
    Value lhs = getDotOperandRoot(dot.getLhs());
    Value rhs = getDotOperandRoot(dot.getRhs());
    if (headWeights.contains(lhs))
      headGradients.insert(rhs);
    if (headWeights.contains(rhs))
      headGradients.insert(lhs);
  });
}

bool DotRoles::isHeadGradient(DotGeneralOp dot) const {
  Value lhs = getDotOperandRoot(dot.getLhs());
  Value rhs = getDotOperandRoot(dot.getRhs());
  if (headWeights.contains(lhs) || headWeights.contains(rhs))
    return true;
  return (headInputs.contains(lhs) && headGradients.contains(rhs)) ||
         (headInputs.contains(rhs) && headGradients.contains(lhs));
}

DotRoles::DotRoles(FunctionOpInterface func) {
  findHeads(func);
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    if (roles.contains(dot))
      return;
    bool hasWeight = isWeight(getDotOperandRoot(dot.getLhs())) ||
                     isWeight(getDotOperandRoot(dot.getRhs()));
    bool isBatched =
        !dot.getDotDimensionNumbers().getLhsBatchingDimensions().empty();
    if (!isForward(dot) && isHeadGradient(dot))
      roles[dot] = DotRole::Head;
    else
      roles[dot] =
          isBatched && !hasWeight ? DotRole::Attention : DotRole::Linear;
  });
}
