//===- Folds.h - Folds on stablehlo ops, by family --------------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_FOLDS_H
#define SCALIFY_IMPORT_FOLDS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace scalify::import {

struct FoldOptions {
  int64_t maxElements; // limit for constants that are no splat
  bool signedZeros;    // preserve the sign of zeros
};

/// Adds a pattern that replaces an op by what `fold` returns, a value or the
/// elements of a constant, unless it is null.
template <typename Op>
void addFold(mlir::RewritePatternSet &patterns, const FoldOptions &options,
             mlir::OpFoldResult (*fold)(Op, const FoldOptions &)) {
  using FoldFn = mlir::OpFoldResult (*)(Op, const FoldOptions &);
  struct Fold : mlir::OpRewritePattern<Op> {
    Fold(mlir::MLIRContext *context, FoldFn fold, const FoldOptions &options)
        : mlir::OpRewritePattern<Op>(context), fold(fold), options(options) {}

    mlir::LogicalResult
    matchAndRewrite(Op op, mlir::PatternRewriter &rewriter) const override {
      mlir::OpFoldResult result = fold(op, options);
      if (!result)
        return rewriter.notifyMatchFailure(op, "does not fold");
      if (auto value = mlir::dyn_cast<mlir::Value>(result))
        rewriter.replaceOp(op, value);
      else
        rewriter.replaceOpWithNewOp<stablehlo::ConstantOp>(
            op, mlir::cast<mlir::ElementsAttr>(
                    mlir::cast<mlir::Attribute>(result)));
      return mlir::success();
    }

    FoldFn fold;
    FoldOptions options;
  };
  patterns.add<Fold>(patterns.getContext(), fold, options);
}

/// Returns the size limit for constants of `type`, except splats. It is below
/// 100 for predicates: MLIR prints larger ones as packed bits up to version 22
/// and as bytes from 23 on, so that jaxlib could not parse them.
int64_t getMaxElements(mlir::Type type, int64_t maxElements);

/// Adds folds that evaluate elementwise ops on constants.
void populateConstantFolds(mlir::RewritePatternSet &patterns,
                           const FoldOptions &options);
/// Adds folds of neutral elements, inverses, and redundant conversions and
/// selects.
void populateAlgebraFolds(mlir::RewritePatternSet &patterns,
                          const FoldOptions &options);
/// Adds folds of identity moves, moves of moves, and moves of constants.
void populateShapeFolds(mlir::RewritePatternSet &patterns,
                        const FoldOptions &options);
/// Adds folds of sums of padded tensors that share no element.
void populatePadFolds(mlir::RewritePatternSet &patterns,
                      const FoldOptions &options);
/// Adds folds of ops with a static form: dynamic ops whose shapes are
/// constants, maps, elements of tuples, and parts of real numbers.
void populateStaticFolds(mlir::RewritePatternSet &patterns,
                         const FoldOptions &options);

/// Adds the folds of dynamic ops whose operands have static shapes and whose
/// result's type follows from the static op, whatever it is now.
void populateStaticForms(mlir::RewritePatternSet &patterns);

/// Returns all folds.
mlir::FrozenRewritePatternSet getFolds(mlir::MLIRContext *context,
                                       const FoldOptions &options);
/// Folds and merges equal ops until neither changes anything. Notifies
/// `listener` of both.
mlir::LogicalResult
foldAndMerge(mlir::Operation *root, const mlir::FrozenRewritePatternSet &folds,
             mlir::RewriterBase::Listener *listener = nullptr);

/// Returns the elements of `value` if it is a constant, else null.
mlir::DenseElementsAttr getConstant(mlir::Value value);

/// Returns the elements of a constant of integers.
std::optional<llvm::SmallVector<int64_t>> getNumbers(mlir::Value value);

/// True if the op is a broadcast that only adds dimensions of one element.
bool addsOnes(mlir::Operation *op);

/// Returns the operand of a concatenation that contains all elements from
/// `begin` to `end` along its dimension, and the index of the first of them in
/// it; null if they span several operands.
std::pair<mlir::Value, int64_t> findPiece(stablehlo::ConcatenateOp op,
                                          int64_t begin, int64_t end);

/// True if every element of `value` is known to be zero, of either sign.
bool isZero(mlir::Value value);
/// True if every element of `value` is known to be -0.0.
bool isNegativeZero(mlir::Value value);
/// True if every element of `value` is known to be one.
bool isOne(mlir::Value value);

} // namespace scalify::import

#endif // SCALIFY_IMPORT_FOLDS_H
