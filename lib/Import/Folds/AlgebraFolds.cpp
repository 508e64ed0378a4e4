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

/// Folds x + 0 and 0 + x.
static OpFoldResult foldAddZero(stablehlo::AddOp op,
                                const FoldOptions &options) {
  for (auto [zero, other] : {std::pair(op.getRhs(), op.getLhs()),
                             std::pair(op.getLhs(), op.getRhs())}) {
    bool exact = !isa<FloatType>(getElementTypeOrSelf(zero)) ||
                 isNegativeZero(zero) || !options.signedZeros;
    if (exact && isZero(zero) && other.getType() == op.getType())
      return other;
  }
  return {};
}

/// Folds x - 0: x - (+0) is x for every x.
static OpFoldResult foldSubtractZero(stablehlo::SubtractOp op,
                                     const FoldOptions &options) {
  if (!isZero(op.getRhs()) ||
      (options.signedZeros && isNegativeZero(op.getRhs())))
    return {};
  return op.getLhs();
}

/// Folds x * 1 and 1 * x.
static OpFoldResult foldMultiplyOne(stablehlo::MulOp op, const FoldOptions &) {
  if (isOne(op.getRhs()))
    return op.getLhs();
  return isOne(op.getLhs()) ? op.getRhs() : Value();
}

/// Folds x / 1.
static OpFoldResult foldDivideOne(stablehlo::DivOp op, const FoldOptions &) {
  return isOne(op.getRhs()) ? op.getLhs() : Value();
}

/// Folds f(f(x)) = x: two negations, or two complements.
template <typename Op>
static OpFoldResult foldInvolution(Op op, const FoldOptions &) {
  auto inner = op.getOperand().template getDefiningOp<Op>();
  return inner ? inner.getOperand() : Value();
}

/// True for the neutral operand of an op: all ones for `and`, zero for `or`.
template <typename Op> static bool isNeutral(Value value) {
  DenseElementsAttr constant = getConstant(value);
  if (!constant || !constant.isSplat() ||
      !isa<IntegerType>(constant.getElementType()))
    return false;
  APInt element = constant.getSplatValue<APInt>();
  if (std::is_same_v<Op, stablehlo::AndOp>)
    return element.isAllOnes();
  return std::is_same_v<Op, stablehlo::OrOp> && element.isZero();
}

/// Folds f(x, x) = x, and neutral operands.
template <typename Op>
static OpFoldResult foldLattice(Op op, const FoldOptions &) {
  if (op.getLhs() == op.getRhs() || isNeutral<Op>(op.getRhs()))
    return op.getLhs();
  return isNeutral<Op>(op.getLhs()) ? op.getRhs() : Value();
}

/// Folds selects with a constant predicate, or between equal values.
static OpFoldResult foldSelect(stablehlo::SelectOp op, const FoldOptions &) {
  if (op.getOnTrue() == op.getOnFalse())
    return op.getOnTrue();
  DenseElementsAttr pred = getConstant(op.getPred());
  if (!pred || !pred.isSplat())
    return {};
  return pred.getSplatValue<bool>() ? op.getOnTrue() : op.getOnFalse();
}

/// True if every value of float type `narrow` is a value of `wide`.
static bool isLosslessExtension(Type narrow, Type wide) {
  auto from = dyn_cast<FloatType>(narrow), to = dyn_cast<FloatType>(wide);
  if (!from || !to || from.getWidth() < 16 || to.getWidth() < 16)
    return false;
  return APFloat::isRepresentableBy(from.getFloatSemantics(),
                                    to.getFloatSemantics());
}

/// Folds conversions to the same type, and those that undo a lossless
/// extension.
static OpFoldResult foldConvert(stablehlo::ConvertOp op, const FoldOptions &) {
  if (op.getOperand().getType() == op.getType())
    return op.getOperand();
  auto inner = op.getOperand().getDefiningOp<stablehlo::ConvertOp>();
  if (!inner || inner.getOperand().getType() != op.getType() ||
      !isLosslessExtension(getElementTypeOrSelf(op.getType()),
                           getElementTypeOrSelf(inner.getType())))
    return {};
  return inner.getOperand();
}

/// Folds rounding to a format that contains all values of the type. JAX marks
/// saved values by it.
static OpFoldResult foldReducePrecision(stablehlo::ReducePrecisionOp op,
                                        const FoldOptions &) {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(op.getOperand()));
  if (!type || type.getWidth() < 16)
    return {};
  unsigned mantissa = type.getFPMantissaWidth() - 1;
  unsigned exponent = type.getWidth() - 1 - mantissa;
  if (op.getExponentBits() < exponent || op.getMantissaBits() < mantissa)
    return {};
  return op.getOperand();
}

void scalify::import::populateAlgebraFolds(RewritePatternSet &patterns,
                                           const FoldOptions &options) {
  addFold(patterns, options, foldAddZero);
  addFold(patterns, options, foldSubtractZero);
  addFold(patterns, options, foldMultiplyOne);
  addFold(patterns, options, foldDivideOne);
  addFold(patterns, options, foldSelect);
  addFold(patterns, options, foldConvert);
  addFold(patterns, options, foldReducePrecision);
  addFold(patterns, options, foldInvolution<stablehlo::NegOp>);
  addFold(patterns, options, foldInvolution<stablehlo::NotOp>);
  addFold(patterns, options, foldLattice<stablehlo::AndOp>);
  addFold(patterns, options, foldLattice<stablehlo::OrOp>);
  addFold(patterns, options, foldLattice<stablehlo::MaxOp>);
  addFold(patterns, options, foldLattice<stablehlo::MinOp>);
}
