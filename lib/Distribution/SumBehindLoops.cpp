//===- SumBehindLoops.cpp - Ranks sum once what loops make ----------------===//
//
// A partitioner puts the sum over ranks beside the product that leaves it open,
// and so into loops over layers and over micro-batches. Behind the loop it is
// one message in place of many, and state that follows from it can be kept in
// shares.
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

/// Gives all elements of its operand, in another order or shape.
static bool isMove(Operation *op) {
  if (movesElements(op))
    return true;
  auto broadcast = dyn_cast_or_null<BroadcastInDimOp>(op);
  return broadcast &&
         cast<ShapedType>(broadcast->getOperand(0).getType())
                 .getNumElements() ==
             cast<ShapedType>(broadcast.getType()).getNumElements();
}

/// The sum over ranks that a value is, read by nothing else on the way.
static AllReduceOp findSum(Value value) {
  while (value.hasOneUse() && isMove(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto sum = value.getDefiningOp<AllReduceOp>();
  bool isOne = sum && value.hasOneUse() && sum->getNumOperands() == 1 &&
               isSum(sum.getComputation());
  return isOne ? sum : AllReduceOp();
}

/// Sums `result` of a loop in place of `inside`, an element of it.
static void moveBehind(WhileOp loop, unsigned index, AllReduceOp inside) {
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

  /// What stacks hold is the same number of sums behind the loop; only within
  /// another loop they may become fewer.
  bool takesStacks(WhileOp loop) const {
    return stacks || loop->getParentOfType<WhileOp>();
  }

  void runOn(WhileOp loop) {
    for (unsigned index = 0; index < loop->getNumResults(); ++index) {
      if (!loop.getCond().getArgument(index).use_empty())
        continue;
      Value part = getAddend(loop, index);
      if (!part && takesStacks(loop))
        part = getStackedUpdate(loop, index);
      AllReduceOp sum = part ? findSum(part) : AllReduceOp();
      if (!sum || sum->getParentRegion() != &loop.getBody())
        continue;
      if (!startsFromZero(loop, index)) {
        sum->emitRemark("stays in its loop: what the loop adds up or stacks "
                        "does not start from zero");
        continue;
      }
      moveBehind(loop, index, sum);
      ++numMoved;
    }
  }

  void runOnOperation() override {
    // Inner loops first: what comes out of them may come out of outer ones.
    getOperation().walk<WalkOrder::PostOrder>(
        [&](WhileOp loop) { runOn(loop); });
  }
};
} // namespace
