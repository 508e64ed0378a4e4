//===- ScaleAnalysis.cpp - The facts of every value of a function ---------===//

#include "scalify/Scaling/ScaleAnalysis.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

// Adam's moments settle in two rounds; more would only polish fractions of a
// binade.
static constexpr int kMaxStateRounds = 4;

bool scalify::isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

ScaleAnalysis::ScaleAnalysis(FunctionOpInterface func) : func(func) {
  seedArguments();
  for (int round = 0; round < kMaxStateRounds; ++round) {
    inferBody();
    if (!updateState())
      break;
  }
}

const ScaleFacts &ScaleAnalysis::lookup(Value value) const {
  static const ScaleFacts unknown;
  auto it = facts.find(value);
  return it == facts.end() ? unknown : it->second;
}

/// State other than the model's parameters: its scale follows from the step.
static bool isWrittenState(FunctionOpInterface func, unsigned index) {
  auto role = func.getArgAttrOfType<StringAttr>(index, kRoleAttr);
  return role && func.getArgAttr(index, "tf.aliasing_output") &&
         (role.getValue() == "moment" || role.getValue() == "state");
}

void ScaleAnalysis::seedArguments() {
  for (BlockArgument arg : func.getArguments()) {
    if (!isFloatTensor(arg.getType()))
      continue;
    unsigned index = arg.getArgNumber();
    if (auto scale = func.getArgAttrOfType<IntegerAttr>(index, kScaleAttr)) {
      facts[arg] = ScaleFacts::gaussian(std::exp2(scale.getInt()));
      facts[arg].rule = "declared scale of the argument";
      continue;
    }
    if (isWrittenState(func, index)) {
      // Nothing is known yet; not a zero constant, whose scale is free.
      facts[arg] = ScaleFacts::gaussian(0);
      facts[arg].rule = "state: the scale of what is written into it";
      continue;
    }
    facts[arg].rule = "undeclared argument: 2^0";
    if (cast<ShapedType>(arg.getType()).getRank() > 0)
      undeclared.push_back(arg);
  }
}

void ScaleAnalysis::inferBody() {
  withoutRule.clear();
  auto lookupRef = [this](Value value) -> const ScaleFacts & {
    return lookup(value);
  };
  for (Operation &op : func.getFunctionBody().front().without_terminator()) {
    SmallVector<ScaleFacts> results(op.getNumResults());
    if (auto rule = dyn_cast<ScaleRuleInterface>(op)) {
      rule.inferFacts(FactsQuery{&op, lookupRef}, results);
    } else {
      if (llvm::any_of(op.getOperandTypes(), isFloatTensor) ||
          llvm::any_of(op.getResultTypes(), isFloatTensor))
        withoutRule.push_back(&op);
      for (ScaleFacts &result : results)
        result.rule = "no rule: 2^0";
    }
    for (auto [value, result] : llvm::zip(op.getResults(), results))
      facts[value] = std::move(result);
  }
}

bool ScaleAnalysis::updateState() {
  Operation *terminator = func.getFunctionBody().front().getTerminator();
  bool changed = false;
  for (BlockArgument arg : func.getArguments()) {
    unsigned index = arg.getArgNumber();
    auto alias = func.getArgAttrOfType<IntegerAttr>(index, "tf.aliasing_output");
    if (!alias || func.getArgAttr(index, kScaleAttr) ||
        !isWrittenState(func, index) || !isFloatTensor(arg.getType()) ||
        alias.getInt() >= terminator->getNumOperands())
      continue;
    const ScaleFacts &next = lookup(terminator->getOperand(alias.getInt()));
    ScaleFacts &current = facts[arg];
    if (next.anyScale || next.scaleExponent() == current.scaleExponent())
      continue;
    current.rms = next.rms;
    current.sign = next.sign;
    current.mean = next.mean;
    changed = true;
  }
  return changed;
}
