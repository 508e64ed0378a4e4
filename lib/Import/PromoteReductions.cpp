//===- PromoteReductions.cpp - Reductions in wider elements ---------------===//
//
// A region may compute in wider elements than those of inputs, updates and init
// values, which StableHLO then promotes. Later stages know reductions of one
// type.
//
//===----------------------------------------------------------------------===//

#include "PromoteReductions.h"

#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns `value`, or its conversion to elements of type `element`.
static Value convertTo(OpBuilder &builder, Location loc, Value value,
                       Type element) {
  if (getElementTypeOrSelf(value) == element)
    return value;
  return ConvertOp::create(builder, loc, value, element);
}

/// True if a promoted value converts back to the same value.
static bool isExact(Type narrow, Type wide) {
  if (auto complex = dyn_cast<ComplexType>(narrow))
    return isExact(complex.getElementType(),
                   cast<ComplexType>(wide).getElementType());
  auto from = dyn_cast<FloatType>(narrow), to = dyn_cast<FloatType>(wide);
  return !from || (to.getWidth() >= 16 &&
                   APFloat::isRepresentableBy(from.getFloatSemantics(),
                                              to.getFloatSemantics()));
}

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
      operand = convertTo(rewriter, op.getLoc(), operand, element);
    }
    if (llvm::equal(operands, op->getOperands()))
      return rewriter.notifyMatchFailure(op, "reduces in its own elements");
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
    return success();
  }
};

/// Indices are between inputs and updates.
struct PromoteScatter : OpRewritePattern<ScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ScatterOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getInputs().getTypes() == op->getResultTypes())
      return rewriter.notifyMatchFailure(op, "scatters in its own elements");
    auto promote = [&](MutableOperandRange operands) {
      for (auto [operand, result] : llvm::zip(operands, op->getResults()))
        operand.set(convertTo(rewriter, op.getLoc(), operand.get(),
                              getElementTypeOrSelf(result)));
    };
    rewriter.modifyOpInPlace(op, [&] {
      promote(op.getInputsMutable());
      promote(op.getUpdatesMutable());
    });
    return success();
  }
};

/// The selection compares elements of the operand, not promoted ones.
struct PromoteSelection : OpRewritePattern<SelectAndScatterOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SelectAndScatterOp op,
                                PatternRewriter &rewriter) const override {
    Type narrow = getElementTypeOrSelf(op.getOperand());
    Type wide = getElementTypeOrSelf(op.getType());
    if (narrow == wide)
      return rewriter.notifyMatchFailure(op, "scatters in its own elements");
    if (!isExact(narrow, wide))
      return rewriter.notifyMatchFailure(op, "would select rounded elements");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(convertTo(rewriter, op.getLoc(), operand, wide));
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperands(operands);
      Block &select = op.getSelect().front();
      rewriter.setInsertionPointToStart(&select);
      for (BlockArgument argument : select.getArguments()) {
        Type scalar = argument.getType();
        argument.setType(RankedTensorType::get({}, wide));
        auto back = ConvertOp::create(rewriter, op.getLoc(), scalar, argument);
        rewriter.replaceAllUsesExcept(argument, back, back);
      }
    });
    return success();
  }
};
} // namespace

void scalify::import::populateReductionPromotions(RewritePatternSet &patterns) {
  patterns.add<Promote<ReduceOp>, Promote<ReduceWindowOp>, Promote<AllReduceOp>,
               Promote<ReduceScatterOp>, PromoteScatter, PromoteSelection>(
      patterns.getContext());
}
