//===- OrderSums.cpp - Sums over ranks in the order of ranks --------------===//
//
// GPU transports sum in an order of their own. Instead each rank sends every
// other rank that rank's piece, and sums the pieces it receives in group order,
// as CPU transports do: no more bytes than a ring, and the bits of one process.
// If the data are small, each rank all-gathers and sums all of them.
//
//===----------------------------------------------------------------------===//

#include "PieceSums.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/IR/TypeUtilities.h"

namespace scalify {
#define GEN_PASS_DEF_ORDERSUMSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the add or multiply by which a region reduces floats, whose order
/// matters; null for other regions.
static Operation *findOrderedJoin(Region &region) {
  Block &body = region.front();
  Operation *op = &body.front();
  bool isJoin = isa<AddOp, MulOp>(op) &&
                llvm::hasSingleElement(body.without_terminator()) &&
                op->getOperand(0) != op->getOperand(1) &&
                llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>) &&
                body.getTerminator()->getOperand(0) == op->getResult(0);
  return isJoin && isa<FloatType>(getElementTypeOrSelf(op->getResult(0)))
             ? op
             : nullptr;
}

/// Reduces along the first dimension, in F32 if the element type is narrower.
static Value joinParts(OpBuilder &builder, Operation *join, Value parts) {
  Location loc = parts.getLoc();
  RankedTensorType type = typeOf(parts);
  Type narrow = type.getElementType();
  if (narrow.getIntOrFloatBitWidth() < 32)
    parts = ConvertOp::create(builder, loc, type.clone(builder.getF32Type()),
                              parts);
  return buildOrderedSum(builder, loc, parts, narrow, isa<MulOp>(join));
}

namespace {
struct OrderSumsPass : scalify::impl::OrderSumsPassBase<OrderSumsPass> {
  using OrderSumsPassBase::OrderSumsPassBase;
  void runOnOperation() override;

private:
  bool order(Operation *op);
};
} // namespace

bool OrderSumsPass::order(Operation *op) {
  Operation *join = findOrderedJoin(op->getRegion(0));
  auto groups = op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  // FormCollectives rejects groups of unequal size.
  auto isEmpty = [](Value value) {
    return typeOf(value).getNumElements() == 0;
  };
  if (!join || llvm::is_contained(groups.getValues<int64_t>(), -1) ||
      llvm::any_of(op->getOperands(), isEmpty))
    return false;
  int64_t size = groups.getType().getDimSize(1);
  auto sumParts = [&](OpBuilder &builder, Value parts) {
    return joinParts(builder, join, parts);
  };
  PieceSums sum(op, sumParts);
  Operation *before = op->getPrevNode();
  SmallVector<Value> results;
  for (Value value : op->getOperands()) {
    RankedTensorType type = typeOf(value);
    int64_t bytes =
        size * type.getNumElements() * (type.getElementTypeBitWidth() / 8);
    if (auto part = dyn_cast<ReduceScatterOp>(op))
      results.push_back(
          sum.scatter(value, static_cast<int64_t>(part.getScatterDimension())));
    else
      results.push_back(bytes <= gatherBytes ? sum.gathered(value)
                                             : sum.all(value));
  }
  copyPhaseToInserted(op, before);
  op->replaceAllUsesWith(results);
  op->erase();
  return true;
}

void OrderSumsPass::runOnOperation() {
  SmallVector<Operation *> sums;
  getOperation().walk([&](Operation *op) {
    if (isa<AllReduceOp, ReduceScatterOp>(op))
      sums.push_back(op);
  });
  for (Operation *op : sums)
    numOrdered += order(op);
}
