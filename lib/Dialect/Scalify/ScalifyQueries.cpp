//===- ScalifyQueries.cpp - What values say of themselves -----------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "scalify/Dialect/Scalify/Scalify.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

std::string scalify::getArgumentName(BlockArgument argument) {
  auto func =
      dyn_cast_or_null<FunctionOpInterface>(argument.getOwner()->getParentOp());
  unsigned index = argument.getArgNumber();
  if (func)
    if (auto name = func.getArgAttrOfType<StringAttr>(index, kNameAttr))
      return name.str();
  return "arg" + std::to_string(index);
}

std::optional<int64_t> scalify::getScaleExponent(Value scale) {
  DenseFPElementsAttr constant;
  if (!matchPattern(scale, m_Constant(&constant)) || !constant.isSplat())
    return std::nullopt;
  double value = constant.getSplatValue<APFloat>().convertToDouble();
  if (!(value > 0) || std::isinf(value))
    return std::nullopt;
  return std::llround(std::log2(value));
}

Attribute scalify::getArgumentAttr(Value value, StringRef name) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto function =
      argument
          ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
          : FunctionOpInterface();
  return function ? function.getArgAttr(argument.getArgNumber(), name)
                  : Attribute();
}

StringRef scalify::getPhase(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase ? phase.getValue() : StringRef("forward");
}

double scalify::getLargestFinite(FloatType format) {
  return APFloat::getLargest(format.getFloatSemantics()).convertToDouble();
}
