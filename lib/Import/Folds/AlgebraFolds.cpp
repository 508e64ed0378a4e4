//===- AlgebraFolds.cpp - Folds of elementwise ops without effect ---------===//
//
// Each fold holds by a property of IEEE 754. x + 0 and x - (-0) change the sign
// of a zero x and are kept under `signed-zeros`.
//
//===----------------------------------------------------------------------===//

#include "scalify/Import/Folds.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

namespace {

/// Folds x + 0 and 0 + x.
struct FoldAddZero : OpRewritePattern<stablehlo::AddOp> {
  FoldAddZero(MLIRContext *context, bool signedZeros)
      : OpRewritePattern(context), signedZeros(signedZeros) {}

  LogicalResult matchAndRewrite(stablehlo::AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [zero, other] : {std::pair(op.getRhs(), op.getLhs()),
                               std::pair(op.getLhs(), op.getRhs())}) {
      bool exact = !isa<FloatType>(getElementTypeOrSelf(zero)) ||
                   isNegativeZero(zero) || !signedZeros;
      if (exact && isZero(zero) && other.getType() == op.getType()) {
        rewriter.replaceOp(op, other);
        return success();
      }
    }
    return rewriter.notifyMatchFailure(op, "no operand is zero");
  }

  bool signedZeros;
};

/// Folds x - 0: x - (+0) is x for every x.
struct FoldSubtractZero : OpRewritePattern<stablehlo::SubtractOp> {
  FoldSubtractZero(MLIRContext *context, bool signedZeros)
      : OpRewritePattern(context), signedZeros(signedZeros) {}

  LogicalResult matchAndRewrite(stablehlo::SubtractOp op,
                                PatternRewriter &rewriter) const override {
    if (!isZero(op.getRhs()) || (signedZeros && isNegativeZero(op.getRhs())))
      return rewriter.notifyMatchFailure(op, "the second operand is not zero");
    rewriter.replaceOp(op, op.getLhs());
    return success();
  }

  bool signedZeros;
};

/// Folds x * 1 and 1 * x.
struct FoldMultiplyOne : OpRewritePattern<stablehlo::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::MulOp op,
                                PatternRewriter &rewriter) const override {
    if (isOne(op.getRhs()))
      rewriter.replaceOp(op, op.getLhs());
    else if (isOne(op.getLhs()))
      rewriter.replaceOp(op, op.getRhs());
    else
      return rewriter.notifyMatchFailure(op, "no operand is one");
    return success();
  }
};

/// Folds x / 1.
struct FoldDivideOne : OpRewritePattern<stablehlo::DivOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::DivOp op,
                                PatternRewriter &rewriter) const override {
    if (!isOne(op.getRhs()))
      return rewriter.notifyMatchFailure(op, "the divisor is not one");
    rewriter.replaceOp(op, op.getLhs());
    return success();
  }
};

/// Folds f(f(x)) = x: two negations, or two complements.
template <typename Op> struct FoldInvolution : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().template getDefiningOp<Op>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "the operand is another op");
    rewriter.replaceOp(op, inner.getOperand());
    return success();
  }
};

/// Folds f(x, x) = x, and neutral operands: all ones for `and`, zero for `or`.
template <typename Op> struct FoldLattice : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  static bool isNeutral(Value value) {
    DenseElementsAttr constant = getConstant(value);
    if (!constant || !constant.isSplat() ||
        !isa<IntegerType>(constant.getElementType()))
      return false;
    APInt element = constant.getSplatValue<APInt>();
    if (std::is_same_v<Op, stablehlo::AndOp>)
      return element.isAllOnes();
    return std::is_same_v<Op, stablehlo::OrOp> && element.isZero();
  }

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (op.getLhs() == op.getRhs() || isNeutral(op.getRhs()))
      rewriter.replaceOp(op, op.getLhs());
    else if (isNeutral(op.getLhs()))
      rewriter.replaceOp(op, op.getRhs());
    else
      return rewriter.notifyMatchFailure(op, "no operand is neutral");
    return success();
  }
};

/// Folds selects with a constant predicate, or between equal values.
struct FoldSelect : OpRewritePattern<stablehlo::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::SelectOp op,
                                PatternRewriter &rewriter) const override {
    DenseElementsAttr pred = getConstant(op.getPred());
    if (op.getOnTrue() == op.getOnFalse())
      rewriter.replaceOp(op, op.getOnTrue());
    else if (pred && pred.isSplat())
      rewriter.replaceOp(op, pred.getSplatValue<bool>() ? op.getOnTrue()
                                                        : op.getOnFalse());
    else
      return rewriter.notifyMatchFailure(op, "the predicate is not known");
    return success();
  }
};

/// True if every value of float type `narrow` is a value of `wide`.
bool isLosslessExtension(Type narrow, Type wide) {
  auto from = dyn_cast<FloatType>(narrow), to = dyn_cast<FloatType>(wide);
  if (!from || !to || from.getWidth() < 16 || to.getWidth() < 16)
    return false;
  return APFloat::isRepresentableBy(from.getFloatSemantics(),
                                    to.getFloatSemantics());
}

/// Folds conversions to the same type, and those that undo a lossless
/// extension.
struct FoldConvert : OpRewritePattern<stablehlo::ConvertOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::ConvertOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getOperand().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getOperand());
      return success();
    }
    auto inner = op.getOperand().getDefiningOp<stablehlo::ConvertOp>();
    if (!inner || inner.getOperand().getType() != op.getType() ||
        !isLosslessExtension(getElementTypeOrSelf(op.getType()),
                             getElementTypeOrSelf(inner.getType())))
      return rewriter.notifyMatchFailure(op, "the conversion rounds");
    rewriter.replaceOp(op, inner.getOperand());
    return success();
  }
};

/// Folds rounding to a format that contains all values of the type. JAX marks
/// saved values by it.
struct FoldReducePrecision : OpRewritePattern<stablehlo::ReducePrecisionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(stablehlo::ReducePrecisionOp op,
                                PatternRewriter &rewriter) const override {
    auto type = dyn_cast<FloatType>(getElementTypeOrSelf(op.getOperand()));
    if (!type || type.getWidth() < 16)
      return rewriter.notifyMatchFailure(op, "not an IEEE-like type");
    unsigned mantissa = type.getFPMantissaWidth() - 1;
    unsigned exponent = type.getWidth() - 1 - mantissa;
    if (op.getExponentBits() < exponent || op.getMantissaBits() < mantissa)
      return rewriter.notifyMatchFailure(op, "the format is narrower");
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
};

} // namespace

void scalify::import::populateAlgebraFolds(RewritePatternSet &patterns,
                                           const FoldOptions &options) {
  MLIRContext *context = patterns.getContext();
  patterns.add<FoldAddZero, FoldSubtractZero>(context, options.signedZeros);
  patterns.add<FoldMultiplyOne, FoldDivideOne, FoldSelect, FoldConvert,
               FoldReducePrecision, FoldInvolution<stablehlo::NegOp>,
               FoldInvolution<stablehlo::NotOp>, FoldLattice<stablehlo::AndOp>,
               FoldLattice<stablehlo::OrOp>, FoldLattice<stablehlo::MaxOp>,
               FoldLattice<stablehlo::MinOp>>(context);
}
