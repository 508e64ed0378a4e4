//===- Folds.h - Folds on stablehlo ops, by family --------------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_FOLDS_H
#define SCALIFY_IMPORT_FOLDS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace scalify::import {

struct FoldOptions {
  int64_t maxElements; // of a constant that is no splat
  bool signedZeros;    // whether the sign of a zero must be kept
};

/// The most elements of a constant of `type`, splats aside. Predicates stay
/// below 100: MLIR prints larger ones as packed bits up to version 22 and as
/// bytes from 23 on, so that jaxlib could not read them back.
int64_t getMaxElements(mlir::Type type, int64_t maxElements);

/// Evaluation of elementwise ops whose operands are constants.
void populateConstantFolds(mlir::RewritePatternSet &patterns,
                           const FoldOptions &options);
/// Neutral elements, inverses, conversions and selects that do nothing.
void populateAlgebraFolds(mlir::RewritePatternSet &patterns,
                          const FoldOptions &options);
/// Moves that do nothing, moves of moves, moves of constants.
void populateShapeFolds(mlir::RewritePatternSet &patterns,
                        const FoldOptions &options);
/// Sums of padded tensors that share no element.
void populatePadFolds(mlir::RewritePatternSet &patterns,
                      const FoldOptions &options);

/// All of them.
mlir::FrozenRewritePatternSet getFolds(mlir::MLIRContext *context,
                                       const FoldOptions &options);
/// Folds, and merges equal ops, until neither finds more. `listener` hears of
/// both.
mlir::LogicalResult
foldAndMerge(mlir::Operation *root, const mlir::FrozenRewritePatternSet &folds,
             mlir::RewriterBase::Listener *listener = nullptr);

/// The elements of `value` if it is a constant, else null.
mlir::DenseElementsAttr getConstant(mlir::Value value);

/// Whether the op is a broadcast that only adds dimensions of one element.
bool addsOnes(mlir::Operation *op);

/// The operand of a concatenation that has all of its elements from `begin` to
/// `end` along its dimension, and the place of the first of them there; null if
/// they are of several operands.
std::pair<mlir::Value, int64_t> findPiece(stablehlo::ConcatenateOp op,
                                          int64_t begin, int64_t end);

/// Whether every element of `value` is known to be zero, of either sign.
bool isZero(mlir::Value value);
/// Whether every element of `value` is known to be -0.0.
bool isNegativeZero(mlir::Value value);
/// Whether every element of `value` is known to be one.
bool isOne(mlir::Value value);

} // namespace scalify::import

#endif // SCALIFY_IMPORT_FOLDS_H
