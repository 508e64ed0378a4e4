//===- ReportValues.cpp - What reports say of one value -------------------===//

#include "ReportValues.h"

#include "scalify/Precision/Passes.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

std::string scalify::getElement(Value value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto shaped = dyn_cast<ShapedType>(value.getType());
  os << (shaped ? shaped.getElementType() : value.getType());
  return text;
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

std::string scalify::getArgumentName(func::FuncOp main, unsigned index) {
  auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.str() : "arg" + std::to_string(index);
}

std::string scalify::explainArgument(func::FuncOp main, unsigned index) {
  if (auto scale = main.getArgAttrOfType<IntegerAttr>(index, kScaleAttr))
    return scale.getInt() == kZeroScale
               ? "starts at zero: the scale of what is written into it"
               : "declared scale of the argument";
  auto role = main.getArgAttrOfType<StringAttr>(index, kRoleAttr);
  bool isState =
      !role || role.getValue() == "moment" || role.getValue() == "state";
  if (isState && main.getArgAttr(index, "tf.aliasing_output"))
    return "state: the scale of what is written into it";
  return "undeclared argument: 2^0";
}

/// What is narrow behind an operand of a dot.
static std::string getOperandFormat(Value operand) {
  if (auto dequantize = operand.getDefiningOp<DequantizeOp>())
    return getElement(dequantize.getData());
  return getElement(operand);
}

std::string scalify::describeDotFormats(Operation *dot) {
  return getOperandFormat(dot->getOperand(0)) + " x " +
         getOperandFormat(dot->getOperand(1)) + " -> " +
         getElement(dot->getResult(0));
}

std::string scalify::getWideReason(Operation *dot) {
  auto reason = dot->getAttrOfType<StringAttr>(kWideAttr);
  return reason ? "stays wide: " + reason.str() : "";
}

/// Whether a rescale by a statistic made the scale.
static bool isRescaled(Value scale) {
  SmallVector<Value> worklist{scale};
  DenseSet<Operation *> seen;
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isa<DynamicRescaleOp>(op))
      return true;
    // Arithmetic of scales is rank 0; an amax reads a tensor.
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType());
          type && type.getRank() == 0)
        worklist.push_back(operand);
  }
  return false;
}

std::string scalify::describeCastRule(func::FuncOp main, QuantizeOp quantize) {
  if (!getScaleExponent(quantize.getScale()))
    return isRescaled(quantize.getScale()) ? "rescaled in the step"
                                           : "measured in the step";
  if (RecipeAttr::of(main->getParentOp()).getScales() == ScaleSource::Unit)
    return "unit scale of the recipe: a plain cast";
  auto arg = dyn_cast<BlockArgument>(quantize.getValue());
  if (arg && arg.getOwner()->getParentOp() == main)
    return explainArgument(main, arg.getArgNumber());
  auto rule = quantize->getAttrOfType<StringAttr>(kRuleAttr);
  return rule ? rule.str() : "";
}
