//===- ScalifyQueries.cpp - Queries on values and ops ---------------------===//

#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Contraction.h"

#include "mlir/IR/Matchers.h"

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

SmallVector<OpOperand *> scalify::findProducts(Value value) {
  SmallVector<OpOperand *> products;
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (OpOperand &use : worklist.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (stablehlo::isContraction(user))
        products.push_back(&use);
      else if (isa<ScaleHintOp, stablehlo::ConvertOp, stablehlo::ReshapeOp,
                   stablehlo::TransposeOp>(user))
        worklist.push_back(user->getResult(0));
    }
  return products;
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

RoleAttr scalify::getRoleAttr(FunctionOpInterface function, unsigned index) {
  return function.getArgAttrOfType<RoleAttr>(index, kRoleAttr);
}

RoleAttr scalify::getRoleAttr(Value argument) {
  return dyn_cast_or_null<RoleAttr>(getArgumentAttr(argument, kRoleAttr));
}

bool scalify::isOneOf(RoleAttr role, ArrayRef<Role> roles) {
  return role && llvm::is_contained(roles, role.getValue());
}

PhaseAttr scalify::getPhaseAttr(Operation *op) {
  return op->getAttrOfType<PhaseAttr>(kPhaseAttr);
}

Phase scalify::getPhase(Operation *op) {
  PhaseAttr phase = getPhaseAttr(op);
  return phase ? phase.getValue() : Phase::Forward;
}

bool scalify::isInPhase(Operation *op, Phase phase) {
  PhaseAttr attr = getPhaseAttr(op);
  return attr && attr.getValue() == phase;
}

void scalify::setPhase(Operation *op, Phase phase) {
  op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}

Accumulation scalify::getAccumulation(Operation *dot) {
  if (auto chosen = dot->getAttrOfType<AccumulationAttr>(kAccumulationAttr))
    return chosen.getValue();
  return isInPhase(dot, Phase::Forward) ? Accumulation::Fast
                                        : Accumulation::Precise;
}

void scalify::copyPhase(Operation *from, Operation *to) {
  if (!from)
    return;
  if (PhaseAttr phase = getPhaseAttr(from))
    to->setAttr(kPhaseAttr, phase);
}

void scalify::copyPhaseToInserted(Operation *op, Operation *before) {
  for (Operation *built = op->getPrevNode(); built != before;
       built = built->getPrevNode())
    copyPhase(op, built);
}

double scalify::getLargestFinite(FloatType format) {
  return APFloat::getLargest(format.getFloatSemantics()).convertToDouble();
}
