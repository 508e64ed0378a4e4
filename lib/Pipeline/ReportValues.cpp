//===- ReportValues.cpp - Descriptions of one value for reports -----------===//

#include "ReportValues.h"

#include "scalify/Dialect/Scalify/Donation.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Precision/CastScales.h"
#include "scalify/Precision/DotLayers.h"
#include "scalify/Precision/Passes.h"
#include "scalify/Scaling/MeasuredArguments.h"
#include "scalify/Scaling/Priors.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace scalify;

std::string scalify::getElement(Value value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto shaped = dyn_cast<ShapedType>(value.getType());
  os << (shaped ? shaped.getElementType() : value.getType());
  return text;
}

std::string scalify::explainArgument(func::FuncOp main, unsigned index) {
  if (auto scale = main.getArgAttrOfType<IntegerAttr>(index, kScaleAttr))
    return scale.getInt() == kZeroScale
               ? "starts at zero: takes the scale of the values written into it"
               : "declared scale of the argument";
  if (main.getArgAttr(index, kMeasuredAttr))
    return kMeasuredReason.str();
  RoleAttr role = getRoleAttr(main, index);
  bool isState = !role || isOneOf(role, {Role::Moment, Role::State});
  if (isState && main.getArgAttr(index, kAliasAttr))
    return "state: takes the scale of the values written into it";
  return "undeclared argument: 2^0";
}

bool scalify::isMeasuredArgument(func::FuncOp main, unsigned index) {
  return main.getArgAttr(index, kMeasuredAttr) &&
         !main.getArgAttr(index, kScaleAttr);
}

bool scalify::isByPrior(QuantizeOp quantize) {
  return RecipeAttr::of(quantize->getParentOfType<ModuleOp>()).getScales() ==
             ScaleSource::Propagated &&
         quantize->hasAttr(kByPriorAttr) && !isCalibrated(quantize);
}

/// Returns the element type of a dot's operand, narrow if it is dequantized.
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
  if (auto judgement = dot->getAttrOfType<DecisionAttr>(kJudgementAttr))
    return "not in FP8: " + judgement.describe();
  auto decision = dot->getAttrOfType<DecisionAttr>(kWideAttr);
  return decision ? "stays wide: " + decision.describe() : "";
}

bool scalify::staysWide(Operation *dot) {
  return dot->hasAttr(kWideAttr) && !dot->hasAttr(kJudgementAttr);
}

std::string scalify::describeCastRule(func::FuncOp main, QuantizeOp quantize) {
  ScaleSource scales = RecipeAttr::of(main->getParentOp()).getScales();
  auto rule = quantize->getAttrOfType<StringAttr>(kRuleAttr);
  if (std::optional<ArrayRef<int64_t>> block = quantize.getBlock())
    return llvm::formatv("measured in the step, blocks of {0:$[x]}",
                         llvm::make_range(block->begin(), block->end()))
        .str();
  if (!getScaleExponent(quantize.getScale()) && scales == ScaleSource::Delayed)
    return "from the amaxes of earlier steps; at first: " +
           (rule ? rule.str() : "");
  if (!getScaleExponent(quantize.getScale())) {
    if (scales != ScaleSource::Propagated)
      return "measured in the step";
    return rule ? rule.str() : "rescaled in the step";
  }
  if (!isCalibrated(quantize)) {
    if (scales == ScaleSource::Unit)
      return "unit scale of the recipe: a plain cast";
    auto arg = dyn_cast<BlockArgument>(quantize.getValue());
    if (arg && arg.getOwner()->getParentOp() == main)
      return explainArgument(main, arg.getArgNumber());
  }
  return rule ? rule.str() : "";
}
