//===- CanonicalizeStableHLO.cpp - Fold, simplify and merge ops -----------===//
//
// JAX puts a constant and its broadcast next to every use: 40 % of all ops.
// Folds (in Folds/, by family) and CSE alternate until neither changes
// anything, since merged operands enable new folds.
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

// Limit of rounds of folding and merging; real programs need two or three.
static constexpr int kMaxRounds = 8;

FrozenRewritePatternSet scalify::import::getFolds(MLIRContext *context,
                                                  const FoldOptions &options) {
  RewritePatternSet patterns(context);
  populateAlgebraFolds(patterns, options);
  populateConstantFolds(patterns, options);
  populatePadFolds(patterns, options);
  populateShapeFolds(patterns, options);
  populateStaticFolds(patterns, options);
  return std::move(patterns);
}

LogicalResult
scalify::import::foldAndMerge(Operation *root,
                              const FrozenRewritePatternSet &folds,
                              RewriterBase::Listener *listener) {
  bool changed = true;
  for (int round = 0; changed && round < kMaxRounds; ++round) {
    GreedyRewriteConfig config;
    config.setListener(listener);
    if (failed(applyPatternsGreedily(root, folds, config)))
      return failure();
    IRRewriter rewriter(root->getContext(), listener);
    DominanceInfo dominance;
    eliminateCommonSubExpressions(rewriter, dominance, root, &changed);
  }
  return success();
}

namespace {

struct CanonicalizeStableHLO
    : scalify::impl::CanonicalizeStableHLOPassBase<CanonicalizeStableHLO> {
  using CanonicalizeStableHLOPassBase::CanonicalizeStableHLOPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    patterns = scalify::import::getFolds(context, {maxElements, signedZeros});
    return success();
  }

  void runOnOperation() override {
    if (failed(scalify::import::foldAndMerge(getOperation(), patterns)))
      signalPassFailure();
  }

private:
  FrozenRewritePatternSet patterns;
};

} // namespace
