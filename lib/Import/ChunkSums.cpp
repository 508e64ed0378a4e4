//===- ChunkSums.cpp - Full sums in an order that sharding keeps ----------===//
//
// Ranks that share a tensor each sum their share, in chunks. A process that has
// the whole tensor must add in the same order, so that clipping by a norm has
// the same bits on any number of ranks.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/Stacks.h"
#include "scalify/Import/Passes.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

namespace scalify {
#define GEN_PASS_DEF_CHUNKSUMSPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static Value sumChunks(ReduceOp reduce, const StackShapes &stacks) {
  OpBuilder builder(reduce);
  Location loc = reduce.getLoc();
  Value value = reduce.getInputs()[0], init = reduce.getInitValues()[0];
  auto type = cast<RankedTensorType>(value.getType());
  ArrayRef<int64_t> slices = getSlices(stacks, type);
  int64_t each = type.getNumElements() / llvm::product_of(slices);
  int64_t chunk = getChunkSize(each);
  auto chunks = static_cast<int64_t>(llvm::divideCeil(each, chunk));
  Value sums = padSlices(builder, loc, value, slices, chunks * chunk);
  auto rank = static_cast<int64_t>(slices.size());
  if (chunk > 1) {
    SmallVector<int64_t> shape(slices);
    shape.append({chunks, chunk});
    sums = ReshapeOp::create(
        builder, loc, RankedTensorType::get(shape, type.getElementType()),
        sums);
    sums = buildReduce<AddOp>(builder, loc, sums, init, {rank + 1});
  }
  Value sum =
      buildReduce<AddOp>(builder, loc, sums, init,
                         llvm::to_vector(llvm::seq<int64_t>(0, rank + 1)));
  sum.getDefiningOp()->setAttr(kChunkSumsAttr, builder.getUnitAttr());
  return sum;
}

namespace {
struct ChunkSums : scalify::impl::ChunkSumsPassBase<ChunkSums> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    StackShapes stacks = findStackShapes(main);
    for (auto reduce : llvm::make_early_inc_range(
             main.getBody().front().getOps<ReduceOp>())) {
      if (!isInPhase(reduce, Phase::Optimizer) || !isFullSum(reduce) ||
          reduce->hasAttr(kChunkSumsAttr))
        continue;
      Operation *before = reduce->getPrevNode();
      Value sum = sumChunks(reduce, stacks);
      copyPhaseToInserted(reduce, before);
      reduce->getResult(0).replaceAllUsesWith(sum);
      reduce.erase();
      ++numSums;
    }
  }
};
} // namespace
