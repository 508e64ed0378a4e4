//===- PromoteReductions.cpp - Reductions in wider elements ---------------===//
//
// A region may compute in wider elements than those of inputs and init values,
// which StableHLO then promotes. Later stages know reductions of one type.
//
//===----------------------------------------------------------------------===//

#include "PromoteReductions.h"

#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

namespace {
/// The operands of `Op` come in groups of one for each result.
template <typename Op> struct Promote : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    unsigned count = op->getNumResults();
    SmallVector<Value> operands(op->getOperands());
    for (auto [i, operand] : llvm::enumerate(operands)) {
      Type element = getElementTypeOrSelf(op->getResult(i % count));
      if (getElementTypeOrSelf(operand) != element)
        operand = ConvertOp::create(rewriter, op.getLoc(), operand, element);
    }
    if (llvm::equal(operands, op->getOperands()))
      return rewriter.notifyMatchFailure(op, "reduces in its own elements");
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
    return success();
  }
};
} // namespace

void scalify::import::populateReductionPromotions(RewritePatternSet &patterns) {
  patterns.add<Promote<ReduceOp>, Promote<ReduceWindowOp>, Promote<AllReduceOp>,
               Promote<ReduceScatterOp>>(patterns.getContext());
}
