//===- LayerTable.cpp - Match gradients of weights to layers --------------===//

#include "scalify/Precision/LayerTable.h"

#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Precision/ValueOrigin.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace scalify;

/// Returns the number of elements of the weight's gradient that a dot computes,
/// of one example if there are batch dimensions.
static int64_t countGradient(Operation *op) {
  Value result = op->getResult(0);
  int64_t count = countOf(result);
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
  layer.sizes.insert(countOf(operand));
}

void LayerTable::addInputGradient(Value weight, Value gradient) {
  layers[weight].gradients.insert(getOrigin(gradient));
}

/// Returns the weights of the dots from whose results a value is computed
/// without another dot between.
static llvm::SmallSetVector<Value, 4> getWeightsOfProducerDots(Value value) {
  constexpr size_t kMaxValues = 512;
  llvm::SetVector<Value> behind;
  behind.insert(getOrigin(value));
  llvm::SmallSetVector<Value, 4> weights;
  for (size_t i = 0; i < behind.size() && i < kMaxValues; ++i) {
    Operation *op = behind[i].getDefiningOp();
    if (!op || stablehlo::isControlFlow(op))
      continue;
    for (Value operand : op->getOperands()) {
      if (!stablehlo::isContraction(op)) {
        behind.insert(getOrigin(operand));
        continue;
      }
      Value argument = getStepArgument(operand);
      weights.insert(argument ? argument : getOrigin(operand));
    }
  }
  return weights;
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
  if (!byGradient.empty())
    return byGradient.takeVector();
  if (byInput.size() < 2)
    return byInput.takeVector();
  // Layers that share an input: an output gradient may depend on its output.
  SmallVector<Value> found;
  for (Value operand : dot->getOperands().take_front(2))
    for (Value weight : getWeightsOfProducerDots(operand))
      if (byInput.contains(weight) && !llvm::is_contained(found, weight))
        found.push_back(weight);
  return found.empty() ? byInput.takeVector() : found;
}
