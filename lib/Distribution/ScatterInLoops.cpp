//===- ScatterInLoops.cpp - Accumulate micro-batch gradients in shares ----===//
//
// As in Megatron-LLaMA's overlapped optimizer and ZeRO-2, ranks reduce-scatter
// the gradient of each micro-batch, and each rank keeps the share it updates.
// This multiplies the bytes sent by the number of micro-batches, and divides
// the accumulator by the number of ranks.
//
//===----------------------------------------------------------------------===//

#include "LoopSums.h"
#include "Shards.h"

#include "scalify/Distribution/Passes.h"

#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace scalify {
#define GEN_PASS_DEF_SCATTERINLOOPSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// A reduce-scatter of a sum that a loop accumulates.
struct LoopScatter {
  WhileOp loop;
  unsigned index = 0;
  Value addend;
  SmallVector<Operation *> moves; // from the loop to the reduce-scatter
};
} // namespace

/// True if an op moves elements or pads with zeros, and so distributes over a
/// sum.
static bool distributesOverSum(Operation *op) {
  if (auto pad = dyn_cast_or_null<PadOp>(op))
    return matchPattern(pad.getPaddingValue(), m_AnyZeroFloat());
  return movesElements(op);
}

/// Returns nothing if `scatter` is no sum, or not the only use of a loop's sum.
static std::optional<LoopScatter> findLoopScatter(ReduceScatterOp scatter) {
  LoopScatter found;
  if (scatter->getNumOperands() != 1 || !isSum(scatter.getComputation()))
    return std::nullopt;
  Value value = scatter->getOperand(0);
  while (value.hasOneUse() && distributesOverSum(value.getDefiningOp())) {
    found.moves.push_back(value.getDefiningOp());
    value = value.getDefiningOp()->getOperand(0);
  }
  std::reverse(found.moves.begin(), found.moves.end());
  found.loop = value.getDefiningOp<WhileOp>();
  if (!found.loop || !value.hasOneUse())
    return std::nullopt;
  found.index = cast<OpResult>(value).getResultNumber();
  if (!found.loop.getCond().getArgument(found.index).use_empty() ||
      !startsFromZero(found.loop, found.index))
    return std::nullopt;
  found.addend = getAddend(found.loop, found.index);
  return found.addend ? std::optional(found) : std::nullopt;
}

/// Clones an op, with the constants that it reads, for another first operand.
static Operation *cloneInto(OpBuilder &builder, Operation *op, Value value) {
  IRMapping map;
  map.map(op->getOperand(0), value);
  for (Value other : op->getOperands().drop_front())
    map.map(other, builder.clone(*other.getDefiningOp())->getResult(0));
  return builder.clone(*op, map);
}

static void moveInto(const LoopScatter &found, ReduceScatterOp scatter) {
  WhileOp loop = found.loop;
  Block &body = loop.getBody().front();
  Operation *yield = body.getTerminator();
  auto add = yield->getOperand(found.index).getDefiningOp<AddOp>();
  OpBuilder builder(add);
  Value part = found.addend;
  for (Operation *move : found.moves)
    part = cloneInto(builder, move, part)->getResult(0);
  part = cloneInto(builder, scatter, part)->getResult(0);
  auto type = cast<RankedTensorType>(part.getType());
  BlockArgument carry = body.getArgument(found.index);
  carry.setType(type);
  loop.getCond().getArgument(found.index).setType(type);
  auto sum = AddOp::create(builder, add.getLoc(), type, carry, part);
  sum->setDiscardableAttrs(add->getDiscardableAttrDictionary());
  yield->setOperand(found.index, sum);
  add.erase();
  builder.setInsertionPoint(loop);
  Value zeros = buildZeros(builder, loop.getLoc(), type);
  loop->setOperand(found.index, zeros);
  loop->getResult(found.index).setType(type);
  scatter->getResult(0).replaceAllUsesWith(loop->getResult(found.index));
  scatter.erase();
  for (Operation *move : llvm::reverse(found.moves))
    move->erase();
}

namespace {
struct ScatterInLoopsPass
    : scalify::impl::ScatterInLoopsPassBase<ScatterInLoopsPass> {
  void runOnOperation() override {
    SmallVector<ReduceScatterOp> scatters;
    getOperation().walk(
        [&](ReduceScatterOp scatter) { scatters.push_back(scatter); });
    for (ReduceScatterOp scatter : scatters)
      if (std::optional<LoopScatter> found = findLoopScatter(scatter)) {
        moveInto(*found, scatter);
        ++numMoved;
      }
  }
};
} // namespace
