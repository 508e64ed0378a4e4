//===- Slices.cpp - Ops that work slice by slice --------------------------===//

#include "scalify/Dialect/Scalify/Slices.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

bool scalify::isSliced(Value operand) { return typeOf(operand).getRank() > 0; }

/// True if all operands that are not scalars have `count` slices.
static bool haveSlices(Operation *op, int64_t count) {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !isSliced(operand) || typeOf(operand).getDimSize(0) == count;
  });
}

bool scalify::keepsSlices(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      !isSliced(op->getResult(0)) || !isSliced(op->getOperand(0)) ||
      !haveSlices(op, typeOf(op->getResult(0)).getDimSize(0)))
    return false;
  return TypeSwitch<Operation *, bool>(op)
      .Case([](ReshapeOp) { return true; })
      .Case([](TransposeOp move) { return move.getPermutation().front() == 0; })
      .Case([](BroadcastInDimOp spread) {
        return spread.getBroadcastDimensions().front() == 0;
      })
      .Case([](PadOp pad) {
        return pad.getEdgePaddingLow().front() == 0 &&
               pad.getEdgePaddingHigh().front() == 0 &&
               pad.getInteriorPadding().front() == 0;
      })
      .Case([](QuantizeOp cast) {
        return !cast.getBlock() && !cast.isStochastic();
      })
      .Case([](DequantizeOp wide) { return !wide.getBlock(); })
      .Default([](Operation *other) { return isElementwiseOp(other); });
}
