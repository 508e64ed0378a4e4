//===- ExpandRounding.cpp - Stochastic rounding as arithmetic -------------===//

#include "scalify/Fusion/Passes.h"
#include "scalify/Precision/Rounding.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

namespace scalify {
#define GEN_PASS_DEF_EXPANDROUNDING
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

namespace {
struct ExpandRoundingPass
    : scalify::impl::ExpandRoundingBase<ExpandRoundingPass> {
  void runOnOperation() override {
    bool isAny = false;
    getOperation().walk([&](QuantizeOp cast) {
      isAny |= cast.isStochastic();
      expandRounding(cast);
    });
    if (!isAny)
      return;
    // Merges the stream operands of casts that take both words of one block.
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};
} // namespace
