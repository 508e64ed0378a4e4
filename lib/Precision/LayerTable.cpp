//===- LayerTable.cpp - Which layers gradients of weights are of ----------===//

#include "scalify/Precision/LayerTable.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace scalify;

static int64_t countElements(Value value) {
  return cast<ShapedType>(value.getType()).getNumElements();
}

/// Of the gradient of a weight that a dot makes, one for each example under
/// batch dimensions.
static int64_t countGradient(Operation *op) {
  Value result = op->getResult(0);
  int64_t count = countElements(result);
  auto dot = dyn_cast<stablehlo::DotGeneralOp>(op);
  size_t batches =
      dot ? dot.getDotDimensionNumbers().getLhsBatchingDimensions().size() : 0;
  for (int64_t size :
       cast<ShapedType>(result.getType()).getShape().take_front(batches))
    count /= std::max<int64_t>(size, 1);
  return count;
}

void LayerTable::addForward(Value weight, Value operand, Value input) {
  Layer &layer = layers[weight];
  layer.inputs.insert(getOrigin(input));
  layer.sizes.insert(countElements(operand));
}

void LayerTable::addInputGradient(Value weight, Value gradient) {
  layers[weight].gradients.insert(getOrigin(gradient));
}

SmallVector<Value> LayerTable::findWeights(Operation *dot) const {
  Value lhs = getOrigin(dot->getOperand(0));
  Value rhs = getOrigin(dot->getOperand(1));
  int64_t size = countGradient(dot);
  llvm::SmallSetVector<Value, 2> byBoth, byGradient, byInput;
  for (const auto &[weight, layer] : layers) {
    bool isSize = layer.sizes.contains(size);
    for (auto [input, gradient] : {std::pair(lhs, rhs), std::pair(rhs, lhs)}) {
      bool isInput = layer.inputs.contains(input);
      bool isGradient = layer.gradients.contains(gradient);
      if (isInput && isGradient)
        byBoth.insert(weight);
      else if (isGradient && isSize)
        byGradient.insert(weight);
      else if (isInput && isSize && layer.gradients.empty())
        byInput.insert(weight);
    }
  }
  if (!byBoth.empty())
    return byBoth.takeVector();
  return byGradient.empty() ? byInput.takeVector() : byGradient.takeVector();
}
