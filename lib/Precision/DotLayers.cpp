//===- DotLayers.cpp - Which layer a dot belongs to -----------------------===//
//
// A layer is known by its weight, an operand of its forward dot and of its
// input's gradient. The gradient of the weight has no such operand: it is the
// dot of the layer's input with what multiplies the weight in the backward. The
// first layer's input needs no gradient; there the input and the size tell.
//
//===----------------------------------------------------------------------===//

#include "scalify/Precision/DotLayers.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"

using namespace mlir;
using namespace scalify;

static int64_t countElements(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

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
                     role == DotRole::AttentionDS;
  Value other = isLeft ? rhs : lhs;
  return isAttention || isLeft == isRight || getWeight(other) ||
                 isMadeOfWeights(other)
             ? DotKind::InputGrad
             : DotKind::WeightGrad;
}

void DotLayers::addWeightGradients(ArrayRef<Operation *> dots) {
  for (Operation *dot : dots) {
    Value lhs = getOrigin(dot->getOperand(0));
    Value rhs = getOrigin(dot->getOperand(1));
    SmallVector<Value> byInput;
    for (auto &[weight, layer] : layers)
      for (auto [input, gradient] : {std::pair(lhs, rhs), std::pair(rhs, lhs)})
        if (llvm::is_contained(layer.inputs, input)) {
          if (llvm::is_contained(layer.gradients, gradient))
            weights[dot] = weight;
          else if (layer.gradients.empty() &&
                   layer.elements == countElements(dot->getResult(0)))
            byInput.push_back(weight);
        }
    if (!weights.contains(dot) && byInput.size() == 1)
      weights[dot] = byInput.front();
  }
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
    Value weight = left ? left : right, other = getOrigin(left ? rhs : lhs);
    weights[dot] = weight;
    if (!kind)
      return;
    Layer &layer = layers[weight];
    layer.elements = countElements(left ? lhs : rhs);
    (kind == DotKind::InputGrad ? layer.gradients : layer.inputs)
        .push_back(other);
  });
  addWeightGradients(weightGradients);
}
