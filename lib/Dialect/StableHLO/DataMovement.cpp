//===- DataMovement.cpp - Ops that move elements --------------------------===//

#include "scalify/Dialect/StableHLO/DataMovement.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

using namespace mlir;
using namespace scalify;

#include "scalify/Dialect/StableHLO/DataMovement.cpp.inc"

Value scalify::getMoved(Value value, Move moves) {
  auto has = [&](Move move) { return (moves & move) != Move::None; };
  if (auto result = dyn_cast<OpResult>(value)) {
    auto op = dyn_cast<DataMovementOpInterface>(result.getOwner());
    return op && has(op.getMove())
               ? op.getMovedOperand(result.getResultNumber())
               : Value();
  }
  auto arg = cast<BlockArgument>(value);
  Operation *parent = arg.getOwner()->getParentOp();
  unsigned index = arg.getArgNumber();
  if (auto loop = dyn_cast_or_null<stablehlo::WhileOp>(parent);
      loop && has(Move::Invariant) && stablehlo::isInvariantCarry(loop, index))
    return loop->getOperand(index);
  if (isa_and_present<sdy::ManualComputationOp>(parent) && has(Move::Manual))
    return parent->getOperand(index);
  return {};
}

Value scalify::lookThrough(Value value, Move moves) {
  while (Value moved = getMoved(value, moves))
    value = moved;
  return value;
}
