//===- DotLayers.cpp - The kind and the layer of each dot -----------------===//
//
// A weight identifies its layer: it is an operand of the forward dot and of the
// input's gradient. The gradient of the weight has no such operand: it is the
// dot of the layer's input and the value that multiplies the weight in the
// backward. The first layer's input needs no gradient; there the input and the
// size identify the layer.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DotLayers.h"

using namespace mlir;
using namespace scalify;

static std::optional<DotKind> decideKind(Operation *dot, DotRole role) {
  if (role == DotRole::Optimizer)
    return std::nullopt;
  Value lhs = dot->getOperand(0), rhs = dot->getOperand(1);
  bool isLeft = isGradient(getDotOperandRoot(lhs));
  bool isRight = isGradient(getDotOperandRoot(rhs));
  if (!isLeft && !isRight)
    return DotKind::Forward;
  bool isAttention = role == DotRole::AttentionQK ||
                     role == DotRole::AttentionPV ||
                     role == DotRole::AttentionDS || role == DotRole::Product;
  Value other = isLeft ? rhs : lhs;
  return isAttention || isLeft == isRight || getWeight(other) ||
                 isComputedFromWeights(other)
             ? DotKind::InputGrad
             : DotKind::WeightGrad;
}

DotLayers::DotLayers(FunctionOpInterface func, const DotRoles &roles) {
  SmallVector<Operation *> weightGradients;
  func.getFunctionBody().walk([&](Operation *dot) {
    if (!isContraction(dot))
      return;
    std::optional<DotKind> kind = decideKind(dot, roles.lookup(dot));
    kinds[dot] = kind;
    if (kind == DotKind::WeightGrad)
      weightGradients.push_back(dot);
    Value lhs = dot->getOperand(0), rhs = dot->getOperand(1);
    Value left = scalify::getWeight(lhs), right = scalify::getWeight(rhs);
    if (!left == !right || kind == DotKind::WeightGrad)
      return;
    Value weight = left ? left : right;
    weights[dot] = weight;
    if (kind == DotKind::InputGrad)
      layers.addInputGradient(weight, left ? rhs : lhs);
    else if (kind)
      layers.addForward(weight, left ? lhs : rhs, left ? rhs : lhs);
  });
  for (Operation *dot : weightGradients)
    if (SmallVector<Value> found = layers.findWeights(dot); found.size() == 1)
      weights[dot] = found.front();
}
