//===- SumBehindLoops.cpp - Sink sums over ranks out of loops -------------===//
//
// The partitioner puts the sum over ranks at the dot that needs it, and so into
// loops over layers and micro-batches. After the loop it is one message instead
// of many, and state computed from it can be sharded.
//
//===----------------------------------------------------------------------===//

#include "LoopSums.h"
#include "Shards.h"

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_SUMBEHINDLOOPSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// True if an op reorders or reshapes the elements of its operand.
static bool isMove(Operation *op) {
  if (movesElements(op))
    return true;
  auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(op);
  return broadcast &&
         cast<ShapedType>(broadcast->getOperand(0).getType())
                 .getNumElements() ==
             cast<ShapedType>(broadcast.getType()).getNumElements();
}

/// Returns the sum over ranks that `value` is computed from by moves alone, if
/// nothing else reads it; else null.
static AllReduceOp findSum(Value value) {
  while (value.hasOneUse() && isMove(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto sum = value.getDefiningOp<AllReduceOp>();
  bool isOne = sum && value.hasOneUse() && sum->getNumOperands() == 1 &&
               isSum(sum.getComputation());
  return isOne ? sum : AllReduceOp();
}

/// Sums `result` of a loop instead of `inside`, an addend or slice of it.
static void sinkSum(WhileOp loop, unsigned index, AllReduceOp inside) {
  OpBuilder builder(loop->getContext());
  builder.setInsertionPointAfter(loop);
  Value result = loop->getResult(index);
  auto behind = AllReduceOp::create(builder, inside.getLoc(), result.getType(),
                                    result, inside.getReplicaGroups(),
                                    inside.getChannelHandleAttr(),
                                    inside.getUseGlobalDeviceIds());
  IRMapping map;
  inside.getComputation().cloneInto(&behind.getComputation(), map);
  behind->setDiscardableAttrs(inside->getDiscardableAttrDictionary());
  result.replaceAllUsesExcept(behind->getResult(0), behind);
  inside->getResult(0).replaceAllUsesWith(inside->getOperand(0));
  inside->erase();
}

namespace {
struct SumBehindLoopsPass
    : scalify::impl::SumBehindLoopsPassBase<SumBehindLoopsPass> {
  using SumBehindLoopsPassBase::SumBehindLoopsPassBase;

  /// Moving the sum of a stack does not reduce the number of sums, unless the
  /// loop is in another one, out of which the sum may move as well.
  bool movesStacks(WhileOp loop) const {
    return stacks || loop->getParentOfType<WhileOp>();
  }

  void runOn(WhileOp loop) {
    for (unsigned index = 0; index < loop->getNumResults(); ++index) {
      if (!loop.getCond().getArgument(index).use_empty())
        continue;
      Value part = getAddend(loop, index);
      if (!part && movesStacks(loop))
        part = getStackedUpdate(loop, index);
      AllReduceOp sum = part ? findSum(part) : AllReduceOp();
      if (!sum || sum->getParentRegion() != &loop.getBody())
        continue;
      if (!startsFromZero(loop, index)) {
        sum->emitRemark("stays in its loop: the accumulator or stack does not "
                        "start from zero");
        continue;
      }
      sinkSum(loop, index, sum);
      ++numMoved;
    }
  }

  void runOnOperation() override {
    // Inner loops first: a sum that leaves one may leave the outer loop too.
    getOperation().walk<WalkOrder::PostOrder>(
        [&](WhileOp loop) { runOn(loop); });
  }
};
} // namespace
