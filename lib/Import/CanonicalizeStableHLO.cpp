//===- CanonicalizeStableHLO.cpp - Folds, simplifies, merges --------------===//
//
// JAX puts a constant and its broadcast next to every use: 40 % of all ops.
// Folds (in Folds/, by family) and common subexpressions alternate until
// neither finds more, since merged operands make new folds.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Folds.h"
#include "scalify/Import/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace scalify {
#define GEN_PASS_DEF_CANONICALIZESTABLEHLOPASS
#include "scalify/Import/Passes.h.inc"
} // namespace scalify

using namespace mlir;

// Rounds of folding and merging; real programs settle in two or three.
static constexpr int kMaxRounds = 8;

namespace {

class CanonicalizeStableHLO
    : public scalify::impl::CanonicalizeStableHLOPassBase<
          CanonicalizeStableHLO> {
public:
  using CanonicalizeStableHLOPassBase::CanonicalizeStableHLOPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    scalify::import::FoldOptions options{maxElements, signedZeros};
    RewritePatternSet set(context);
    scalify::import::populateAlgebraFolds(set, options);
    scalify::import::populateConstantFolds(set, options);
    scalify::import::populatePadFolds(set, options);
    scalify::import::populateShapeFolds(set, options);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    bool changed = true;
    for (int round = 0; changed && round < kMaxRounds; ++round) {
      if (failed(applyPatternsGreedily(getOperation(), patterns)))
        return signalPassFailure();
      IRRewriter rewriter(&getContext());
      DominanceInfo dominance;
      eliminateCommonSubExpressions(rewriter, dominance, getOperation(),
                                    &changed);
    }
  }

private:
  FrozenRewritePatternSet patterns;
};

} // namespace
