//===- RecomputeCasts.cpp - Rematerialisation of casts --------------------===//
//
// Precision casts a value once, and forward and backward read the same data.
// Saving the data until the backward is redundant if their source is saved too:
// a result that a gradient reads, or a weight.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Edits.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/Recompute.h"

namespace scalify {
#define GEN_PASS_DEF_RECOMPUTECASTS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct RecomputeCastsPass
    : scalify::impl::RecomputeCastsBase<RecomputeCastsPass> {
  void runOnOperation() override {
    // Without casts, Precision has already made the same cut.
    Block &block = getOperation().getBody().front();
    if (block.getOps<QuantizeOp>().empty())
      return;
    numRecomputed += recomputeCastsForBackward(getOperation());
    stablehlo::eraseDeadOps(block);
    countFirstCasts(block);
  }
};
} // namespace
