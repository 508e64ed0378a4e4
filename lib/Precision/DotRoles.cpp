//===- DotRoles.cpp - Which part of a model a dot belongs to --------------===//
//
// A linear layer multiplies by an argument of the step; attention multiplies
// two activations under batch dimensions. The head is the linear layer from
// whose result the loss is reached without another dot. Its gradients are the
// dots on its weight, and those that meet its input with the same gradient.
// Among attention's dots, the scores come first; what follows them without a
// dot between mixes the values; and the gradient of the scores is what follows
// the gradient of that mix.
// Values are told apart by their origin, so that loops do not hide them.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DotRoles.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using stablehlo::DotGeneralOp;

Value scalify::getDotOperandRoot(Value operand) {
  while (Operation *op = operand.getDefiningOp()) {
    if (isa<SetScaleOp, stablehlo::ReshapeOp, stablehlo::TransposeOp,
            stablehlo::ReverseOp>(op))
      operand = op->getOperand(0);
    else if (isa<stablehlo::OptimizationBarrierOp>(op))
      operand = op->getOperand(cast<OpResult>(operand).getResultNumber());
    else
      break;
  }
  return operand;
}

/// Whether an argument of the step is behind the root.
static bool isWeight(Value root) { return getStepArgument(root) != nullptr; }

static bool isForward(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return !phase || phase.getValue() == "forward";
}

/// Whether forward ops lead from `value` to another dot.
static bool reachesDot(Value value) {
  SmallVector<Value> worklist{value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &use : next.getUses()) {
      Operation *user = use.getOwner();
      if (!stablehlo::isControlFlow(user) && !isForward(user))
        continue;
      if (isa<DotGeneralOp>(user))
        return true;
      llvm::append_range(worklist, getFollowers(use));
    }
  }
  return false;
}

void DotRoles::findHeads(FunctionOpInterface func) {
  // A layer that a checkpoint makes again reaches the gradients only; its
  // weight tells it from a head, by what the forward did with it.
  SmallVector<DotGeneralOp> candidates;
  DenseSet<Value> innerWeights;
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    bool isLeft = isWeight(dot.getLhs()), isRight = isWeight(dot.getRhs());
    if (!isForward(dot) || isLeft == isRight)
      return;
    if (reachesDot(dot.getResult()))
      innerWeights.insert(getOrigin(isLeft ? dot.getLhs() : dot.getRhs()));
    else
      candidates.push_back(dot);
  });
  for (DotGeneralOp dot : candidates) {
    Value lhs = getOrigin(dot.getLhs()), rhs = getOrigin(dot.getRhs());
    bool isLeft = isWeight(dot.getLhs());
    if (innerWeights.contains(isLeft ? lhs : rhs))
      continue;
    headWeights.insert(isLeft ? lhs : rhs);
    headInputs.insert(isLeft ? rhs : lhs);
    roles[dot] = DotRole::Head;
  }
  // What multiplies the head's weight in the backward is the gradient of its
  // output.
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    if (isForward(dot))
      return;
    Value lhs = getOrigin(dot.getLhs()), rhs = getOrigin(dot.getRhs());
    if (headWeights.contains(lhs))
      headGradients.insert(rhs);
    if (headWeights.contains(rhs))
      headGradients.insert(lhs);
  });
}

bool DotRoles::isHeadGradient(DotGeneralOp dot) const {
  Value lhs = getOrigin(dot.getLhs()), rhs = getOrigin(dot.getRhs());
  if (headWeights.contains(lhs) || headWeights.contains(rhs))
    return true;
  return (headInputs.contains(lhs) && headGradients.contains(rhs)) ||
         (headInputs.contains(rhs) && headGradients.contains(lhs));
}

/// Whether the root compares integers with a range: rows of an identity.
static bool isOneHot(Value root) {
  while (auto convert = root.getDefiningOp<stablehlo::ConvertOp>())
    root = getDotOperandRoot(convert.getOperand());
  auto compare = root.getDefiningOp<stablehlo::CompareOp>();
  return compare &&
         compare.getComparisonDirection() ==
             stablehlo::ComparisonDirection::EQ &&
         isa<IntegerType>(getElementTypeOrSelf(compare.getLhs().getType()));
}

/// A one-hot times a table, and what meets the same one-hot in the backward.
void DotRoles::findEmbeddings(FunctionOpInterface func) {
  DenseSet<Value> oneHots;
  func.getFunctionBody().walk([&](DotGeneralOp dot) {
    Value lhs = getDotOperandRoot(dot.getLhs());
    Value rhs = getDotOperandRoot(dot.getRhs());
    Value oneHot = isOneHot(lhs) ? lhs : isOneHot(rhs) ? rhs : Value();
    if (!oneHot)
      return;
    if (isForward(dot) && isWeight(oneHot == lhs ? rhs : lhs))
      oneHots.insert(oneHot);
    if (oneHots.contains(oneHot))
      roles[dot] = DotRole::Embedding;
  });
}

/// One walk in order: which values follow a dot of attention without another
/// dot between.
void DotRoles::findAttention(FunctionOpInterface func) {
  DenseSet<Value> following;
  func.getFunctionBody().walk([&](Operation *op) {
    auto follows = [&](Value value) { return following.contains(value); };
    if (!isContraction(op)) {
      if (llvm::any_of(op->getOperands(), follows))
        following.insert(op->result_begin(), op->result_end());
      return;
    }
    auto role = roles.find(op);
    if (role == roles.end() || role->second != DotRole::AttentionQK)
      return;
    bool hasGradient = llvm::any_of(op->getOperands(), [](Value operand) {
      return isGradient(getDotOperandRoot(operand));
    });
    bool isLate = llvm::any_of(op->getOperands(), [&](Value operand) {
      return follows(operand) &&
             (!hasGradient || isGradient(getDotOperandRoot(operand)));
    });
    if (hasGradient)
      role->second = isLate ? DotRole::AttentionDS : DotRole::AttentionPV;
    else if (isLate)
      role->second = DotRole::AttentionPV;
    following.insert(op->getResult(0));
  });
}

DotRoles::DotRoles(FunctionOpInterface func) {
  findEmbeddings(func);
  findHeads(func);
  func.getFunctionBody().walk([&](Operation *op) {
    auto dot = dyn_cast<DotGeneralOp>(op);
    if (!dot) {
      if (isContraction(op))
        roles[op] = isa<stablehlo::ConvolutionOp>(op) ? DotRole::Convolution
                                                      : DotRole::Linear;
      return;
    }
    if (roles.contains(dot))
      return;
    bool hasWeight = isWeight(dot.getLhs()) || isWeight(dot.getRhs());
    bool isBatched =
        !dot.getDotDimensionNumbers().getLhsBatchingDimensions().empty();
    if (!isForward(dot) && isHeadGradient(dot))
      roles[dot] = DotRole::Head;
    else
      roles[dot] =
          isBatched && !hasWeight ? DotRole::AttentionQK : DotRole::Linear;
  });
  findAttention(func);
}
