//===- Pieces.cpp - Stacks that loops write slice by slice ----------------===//

#include "Pieces.h"

#include "scalify/Dialect/Scalify/Slices.h"
#include "scalify/Dialect/StableHLO/Stacks.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// Follows a value to the loops that write its stacks, including inner loops
/// whose stacks an outer loop accumulates.
class PieceFinder {
public:
  /// True if each slice of the value depends only on the same slice of stacks,
  /// or on values that are available anyway.
  bool collect(Value value);

  llvm::SetVector<Operation *> loops;
  SmallVector<DynamicUpdateSliceOp> updates;

private:
  bool collect(WhileOp loop, unsigned index);
};
} // namespace

bool PieceFinder::collect(WhileOp loop, unsigned index) {
  loops.insert(loop);
  if (DynamicUpdateSliceOp update = getSliceUpdate(loop, index)) {
    updates.push_back(update);
    return true;
  }
  return collect(loop.getBody().front().getTerminator()->getOperand(index));
}

bool PieceFinder::collect(Value value) {
  if (isa<BlockArgument>(value) || matchPattern(value, m_Constant()) ||
      !isSliced(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (auto loop = dyn_cast<WhileOp>(op))
    return collect(loop, cast<OpResult>(value).getResultNumber());
  if (auto spread = dyn_cast<BroadcastInDimOp>(op);
      spread && !isSliced(spread.getOperand()))
    return true;
  return keepsSlices(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
           return collect(operand);
         });
}

WhileOp scalify::findStackingLoop(Value value) {
  PieceFinder finder;
  if (!finder.collect(value) || finder.updates.empty())
    return {};
  Block *block = value.getParentBlock();
  Operation *last = nullptr;
  for (Operation *loop : finder.loops)
    if (loop->getBlock() == block && (!last || last->isBeforeInBlock(loop)))
      last = loop;
  return cast_if_present<WhileOp>(last);
}

/// True if an index is computed by a subtraction, and so falls as the counter
/// rises.
static bool isSubtraction(Value place, unsigned depth = 4) {
  Operation *op = place.getDefiningOp();
  if (!op || depth == 0)
    return false;
  return isa<SubtractOp>(op) ||
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isSubtraction(operand, depth - 1);
         });
}

bool scalify::isWrittenInReverse(WhileOp loop) {
  PieceFinder finder;
  for (OpResult result : loop->getResults())
    if (isSliced(result))
      finder.collect(result);
  return llvm::any_of(finder.updates, [](DynamicUpdateSliceOp update) {
    return isSubtraction(update.getStartIndices().front());
  });
}
