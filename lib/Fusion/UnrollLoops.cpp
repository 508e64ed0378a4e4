//===- UnrollLoops.cpp - Loops of a known number of iterations ------------===//
//
// A plan is a list of commands: it has no loops. Equal iterations cost mostly
// commands, since equal kernels are compiled once, and each gets what a loop
// cannot have: GEMMs that read a layer's weights where they lie in the
// stack, and activations that go from the forward's iteration to the
// backward's without a stack between them.
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
  UnrollOptions options;
  options.maxOps = maxOps;
  options.joinPieces = stackPieces;
  FailureOr<UnrollCounts> counts =
      unrollLoops(function.getBody().front(), std::move(options));
  if (failed(counts))
    return signalPassFailure();
  numLoops += counts->loops;
  numIterations += counts->iterations;
  numStacks += counts->stacks;
  numSelects += counts->selects;
}
