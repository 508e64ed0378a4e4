//===- PlainForm.cpp - Decisions made on a step's plain form --------------===//

#include "PlainForm.h"

#include "Caster.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

std::optional<int64_t> scalify::getOperandExponent(Operation *dot,
                                                   unsigned operand) {
  auto scales = dot->getAttrOfType<DenseI32ArrayAttr>(kPlainScalesAttr);
  if (scales && operand < scales.asArrayRef().size())
    return scales[operand];
  auto hint = dot->getOperand(operand).getDefiningOp<ScaleHintOp>();
  return hint ? getScaleExponent(hint.getScale()) : std::nullopt;
}

void scalify::applyPlainScales(FunctionOpInterface func, Caster &caster) {
  llvm::DenseMap<int32_t, Value> constants;
  func.getFunctionBody().walk([&](Operation *dot) {
    auto scales = dot->getAttrOfType<DenseI32ArrayAttr>(kPlainScalesAttr);
    if (!scales)
      return;
    for (auto [operand, exponent] :
         llvm::zip(dot->getOperands(), scales.asArrayRef())) {
      auto hint = operand.getDefiningOp<ScaleHintOp>();
      if (!hint || getScaleExponent(hint.getScale()) == exponent)
        continue;
      Value &scale = constants[exponent];
      if (!scale)
        scale = caster.makeConstant(std::ldexp(1.0f, exponent));
      hint.getScaleMutable().assign(scale);
    }
  });
}

void scalify::dropPlainForm(FunctionOpInterface func) {
  func->removeAttr(kPlainFormAttr);
  func.getFunctionBody().walk([](Operation *op) {
    for (StringRef name :
         {StringRef(kPlainClassAttr), StringRef(kPlainDecisionAttr),
          StringRef(kPlainScalesAttr)})
      op->removeAttr(name);
  });
}
