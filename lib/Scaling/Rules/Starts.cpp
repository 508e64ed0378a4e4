//===- Starts.cpp - What parameters start from ----------------------------===//

#include "Starts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/Rules.h"

#include <cmath>

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// What the value is a part or another view of, outside of loops.
static Value skipViews(Value value) {
  while (true) {
    Value source = skipLoopInvariants(peelToSource(value));
    Operation *op = source.getDefiningOp();
    if (isa_and_nonnull<DynamicSliceOp, SliceOp, TransposeOp>(op))
      source = op->getOperand(0);
    if (source == value)
      return value;
    value = source;
  }
}

static bool isParameterItself(Value value) {
  return isOneOf(getRoleAttr(value), Role::Param);
}

bool scalify::isParameter(Value value) {
  return isParameterItself(skipLoopInvariants(peelToSource(value)));
}

bool scalify::startsAtZero(Value value) {
  auto scale = dyn_cast_or_null<IntegerAttr>(
      getArgumentAttr(skipViews(value), kScaleAttr));
  return scale && scale.getInt() == kZeroScale;
}

double scalify::getGrowthFromZero(Operation *product) {
  double growth = 1;
  for (Value operand : product->getOperands().take_front(2))
    if (isParameterItself(skipViews(operand)) && startsAtZero(operand))
      growth *= kPathFromZero;
  return growth;
}

/// A parameter far below the usual size, zero among them.
static bool isSmallGate(Value value) {
  Value source = skipViews(value);
  auto scale =
      dyn_cast_or_null<IntegerAttr>(getArgumentAttr(source, kScaleAttr));
  auto type = cast<RankedTensorType>(value.getType());
  auto kept = cast<RankedTensorType>(peelToSource(value).getType());
  return scale && isParameterItself(source) &&
         std::exp2(scale.getInt()) < kEndOfGates &&
         kept.getNumElements() <= type.getShape().back();
}

bool scalify::isBehindSmallGate(Operation *op) {
  // A bias, a change of shape or two, a constant.
  Value value = op->getResult(0);
  for (unsigned step = 0; step < 4; ++step) {
    Operation *next = nullptr;
    for (Operation *user : value.getUsers()) {
      if (getPhase(user) != Phase::Forward)
        continue;
      if (isa<MulOp>(user) &&
          llvm::any_of(user->getOperands(), [&](Value factor) {
            return factor != value && isSmallGate(factor);
          }))
        return true;
      if (isa<AddOp, ReshapeOp, TransposeOp, ConvertOp, MulOp>(user))
        next = user;
    }
    if (!next ||
        (isa<AddOp>(next) && llvm::none_of(next->getOperands(), isParameter)))
      return false;
    value = next->getResult(0);
  }
  return false;
}
