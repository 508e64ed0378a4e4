//===- DotFormats.cpp - The formats that a recipe gives a dot -------------===//
//
// A dot takes the formats of its role, unless an exception matches the name of
// its weight or its location. The gradient of a weight has no such operand:
// it is the dot of the weight's input with what multiplies the weight in the
// backward.
//
//===----------------------------------------------------------------------===//

#include "DotFormats.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace scalify;

void DotFormatChooser::findWeights(FunctionOpInterface func) {
  DenseMap<Value, SmallVector<Value>> inputs, gradients;
  SmallVector<Operation *> rest;
  func.getFunctionBody().walk([&](Operation *op) {
    if (!isContraction(op))
      return;
    Value lhs = getOrigin(op->getOperand(0));
    Value rhs = getOrigin(op->getOperand(1));
    Value left = getStepArgument(lhs), right = getStepArgument(rhs);
    if (!left == !right) {
      rest.push_back(op);
      return;
    }
    Value weight = left ? left : right, other = left ? rhs : lhs;
    weights[op] = weight;
    (isGradient(other) ? gradients[other] : inputs[weight])
        .push_back(isGradient(other) ? weight : other);
  });
  for (Operation *op : rest) {
    Value lhs = getOrigin(op->getOperand(0));
    Value rhs = getOrigin(op->getOperand(1));
    for (auto [gradient, input] : {std::pair(lhs, rhs), std::pair(rhs, lhs)}) {
      auto it = gradients.find(gradient);
      if (it == gradients.end())
        continue;
      for (Value weight : it->second)
        if (llvm::is_contained(inputs.lookup(weight), input))
          weights[op] = weight;
    }
  }
}

/// The names in a location, as JAX nests them.
static void appendNames(Location loc, std::string &text) {
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part))
      text += name.getName().str() + "\n";
    return WalkResult::advance();
  });
}

static StringRef describeRole(DotRole role) {
  switch (role) {
  case DotRole::Linear:
    return "a linear layer";
  case DotRole::AttentionQK:
    return "two activations";
  case DotRole::AttentionPV:
    return "two activations that mix values, or a gradient of it";
  case DotRole::AttentionDS:
    return "the gradient of scores";
  case DotRole::Head:
    return "the last linear layer before the loss";
  case DotRole::Embedding:
    return "a one-hot times a table";
  case DotRole::Convolution:
    return "a convolution";
  case DotRole::Router:
    return "chooses experts";
  case DotRole::Optimizer:
    return "a dot of the update";
  }
  return "";
}

DotFormatChooser::Choice DotFormatChooser::choose(Operation *dot) const {
  DotRole role = roles.lookup(dot);
  std::string names;
  if (!recipe.getOverrides().empty()) {
    appendNames(dot->getLoc(), names);
    if (Value weight = weights.lookup(dot))
      names += getArgumentName(cast<BlockArgument>(weight));
  }
  for (const FormatOverride &entry : recipe.getOverrides())
    if (llvm::Regex(entry.pattern.getValue(), llvm::Regex::Newline)
            .match(names))
      return {recipe.resolve(entry.formats),
              "where \"" + entry.pattern.str() + "\"", role};
  return {recipe.getFormats(role), stringifyDotRole(role).str(), role};
}

DotFormatChooser::DotFormatChooser(RecipeAttr recipe, FunctionOpInterface func)
    : recipe(recipe), roles(func) {
  if (!recipe.getOverrides().empty())
    findWeights(func);
  func.getFunctionBody().walk([&](Operation *op) {
    if (isContraction(op))
      choices[op] = choose(op);
  });
}

Type DotFormatChooser::getOperandFormat(Operation *dot, Value operand) const {
  DotFormats formats = choices.find(dot)->second.formats;
  return isGradient(getDotOperandRoot(operand)) ? formats.gradient
                                                : formats.forward;
}

std::string DotFormatChooser::getReasonToStayWide(Operation *dot) const {
  const Choice &choice = choices.find(dot)->second;
  bool isByName = !recipe.getOverrides().empty() &&
                  StringRef(choice.part).starts_with("where");
  std::string prefix =
      (isByName ? "name" : stringifyDotRole(choice.role)).str() + ": ";
  for (Value operand : dot->getOperands().take_front(2)) {
    Type type = getElementTypeOrSelf(operand.getType());
    if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8)
      return "given: the program itself casts its operands to FP8";
    if (!type.isF32() && !type.isF16() && !type.isBF16()) {
      std::string text;
      llvm::raw_string_ostream(text) << "type: an operand is " << type;
      return text;
    }
    if (!getOperandFormat(dot, operand).isF32())
      continue;
    bool isWide = choice.formats.forward == choice.formats.gradient;
    return prefix + describeRole(choice.role).str() +
           " (recipe: " + choice.part +
           (isWide ? " = false)" : " has an f32 operand)");
  }
  return "";
}
