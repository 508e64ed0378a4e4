//===- NarrowMoves.cpp - Data movement that commutes with casts -----------===//

#include "NarrowMoves.h"

#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace scalify;

bool scalify::commutesWithCast(Operation *op) {
  if (auto pad = dyn_cast_or_null<stablehlo::PadOp>(op))
    return matchPattern(pad.getPaddingValue(), m_PosZeroFloat());
  return isa_and_present<stablehlo::ReshapeOp, stablehlo::TransposeOp,
                         stablehlo::SliceOp>(op);
}

Value scalify::cloneMove(OpBuilder &builder, Operation *move, Value data) {
  Type element = getElementTypeOrSelf(data);
  IRMapping map;
  map.map(move->getOperand(0), data);
  if (auto pad = dyn_cast<stablehlo::PadOp>(move)) {
    Value zero = stablehlo::buildZero(builder, move->getLoc(), element);
    map.map(pad.getPaddingValue(), zero);
  }
  Value moved = builder.clone(*move, map)->getResult(0);
  moved.setType(cast<RankedTensorType>(moved.getType()).clone(element));
  return moved;
}

DequantizeOp scalify::findDequantize(Value value) {
  while (commutesWithCast(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto wide = value.getDefiningOp<DequantizeOp>();
  return wide && !wide.getBlock() ? wide : DequantizeOp();
}

Value scalify::buildNarrow(OpBuilder &builder, Value value) {
  if (auto wide = value.getDefiningOp<DequantizeOp>())
    return wide.getData();
  Operation *move = value.getDefiningOp();
  return cloneMove(builder, move, buildNarrow(builder, move->getOperand(0)));
}

static bool isBefore(Operation *op, Operation *anchor) {
  Operation *around = op->getBlock()->findAncestorOpInBlock(*anchor);
  return around && op->isBeforeInBlock(around);
}

bool scalify::canHoist(Value value, Operation *anchor) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return cast<BlockArgument>(value).getOwner()->findAncestorOpInBlock(
        *anchor);
  if (isBefore(op, anchor) || matchPattern(value, m_Constant()))
    return true;
  return isPure(op) && op->getBlock() == anchor->getBlock() &&
         op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(),
                      [&](Value read) { return canHoist(read, anchor); });
}

Value scalify::hoist(Value value, Operation *anchor) {
  Operation *op = value.getDefiningOp();
  if (!op || isBefore(op, anchor))
    return value;
  if (matchPattern(value, m_Constant()))
    return OpBuilder(anchor).clone(*op)->getResult(0);
  for (OpOperand &read : op->getOpOperands())
    read.set(hoist(read.get(), anchor));
  op->moveBefore(anchor);
  return value;
}
