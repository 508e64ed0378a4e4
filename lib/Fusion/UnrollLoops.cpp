//===- UnrollLoops.cpp - Unrolling of loops of known trip count -----------===//
//
// Equal iterations cost mostly commands, since equal kernels are compiled once.
// Unrolling lets GEMMs read a layer's weights in place in the stack, and passes
// activations from an iteration of the forward to that of the backward without
// a stack in between.
//
//===----------------------------------------------------------------------===//

#include "Stacks.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Import/Unroller.h"

namespace scalify {
#define GEN_PASS_DEF_UNROLLLOOPS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
class UnrollLoopsPass : public scalify::impl::UnrollLoopsBase<UnrollLoopsPass> {
public:
  using UnrollLoopsBase::UnrollLoopsBase;
  void runOnOperation() override;
};
} // namespace

void UnrollLoopsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return;
  if (function.getBody().front().getOps<stablehlo::WhileOp>().empty() &&
      maxLoopOps >= 0)
    return;
  UnrollOptions options;
  options.maxOps = maxOps;
  options.joinPieces = stackPieces;
  options.partly = maxLoopOps >= 0;
  if (options.partly)
    options.maxLoopOps = maxLoopOps;
  FailureOr<UnrollCounts> counts =
      unrollLoops(function.getBody().front(), std::move(options));
  if (failed(counts))
    return signalPassFailure();
  numLoops += counts->loops;
  numIterations += counts->iterations;
  numStacks += counts->stacks;
  numSelects += counts->selects;
}
