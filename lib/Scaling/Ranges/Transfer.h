//===- Transfer.h - Transfer functions of the range analysis ----*- C++ -*-===//
//
// One transfer function per family of ops. Each computes the state of a result
// from the states of the operands. It is sound for what targets compute: exact
// arithmetic widened by Rounding. It returns none for an op of another family.
// If all functions return none, the value is unknown.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RANGES_TRANSFER_H
#define SCALIFY_LIB_SCALING_RANGES_TRANSFER_H

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Idioms/Rows.h"
#include "scalify/Scaling/RangeState.h"

#include "mlir/IR/Operation.h"

#include <cmath>

namespace scalify {

struct RangeQuery {
  mlir::Operation *op;
  llvm::ArrayRef<const RangeState *> operands;
  /// Returns the state of any value above the op. The caller visits the op
  /// again if it changes.
  llvm::function_ref<const RangeState &(mlir::Value)> lookup;
  /// True if operands may be other roundings of values that a pattern reads.
  bool readsSaved = false;

  const RangeState &operator[](unsigned i) const { return *operands[i]; }
  mlir::Type getType(unsigned result = 0) const {
    return op->getResult(result).getType();
  }
  mlir::Type getElement(unsigned result = 0) const {
    return llvm::cast<mlir::ShapedType>(getType(result)).getElementType();
  }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(getElement()); }
};

using MaybeRange = std::optional<RangeState>;

/// Elementwise ops of several operands.
MaybeRange transferElementwise(const RangeQuery &query);
/// Functions of one operand.
MaybeRange transferUnary(const RangeQuery &query);
/// Logic, shifts and casts of bits.
MaybeRange transferBits(const RangeQuery &query);
/// Constants, and ops that move elements.
MaybeRange transferShape(const RangeQuery &query, unsigned result);
/// Gather, scatter, dynamic slices, sort.
MaybeRange transferIndexing(const RangeQuery &query, unsigned result);
/// Reductions, windows and collectives.
MaybeRange transferReduction(const RangeQuery &query, unsigned result);
/// Dots and convolutions.
MaybeRange transferProduct(const RangeQuery &query);
/// Ops of the scalify dialect.
MaybeRange transferScalify(const RangeQuery &query);

/// Returns the format in which the recipe saves the forward values that `op`
/// reads. Null if it saves none in a format, or `op` is in the forward.
mlir::FloatType getSavedFormat(mlir::Operation *op);
/// Returns the state of an operand that may be saved in that format.
RangeState readOperand(mlir::Value value, const RangeState &state,
                       mlir::FloatType saved);

/// Tightens the state of an op that ends a known pattern: norms, softmax,
/// rotary embedding, SiLU.
void refineByPattern(const RangeQuery &query, RangeState &state);

/// a cos t - b sin t: at most |(a, b)|.
void refineRotation(const RangeQuery &query, RangeState &state);
/// The two halves of a rotated pair, concatenated, keep the pair's norm. If the
/// halves were two slices of one tensor, that is the tensor's norm.
void refineRotatedPair(const RangeQuery &query, stablehlo::ConcatenateOp op,
                       RangeState &state);

/// max(select(mask, x, -inf)) along rows that each have an unmasked element.
void refineMaskedMax(const RangeQuery &query, stablehlo::ReduceOp op,
                     RangeState &state);

/// Applies all of these in order; unknown if none applies.
RangeState inferRange(const RangeQuery &query, unsigned result);

/// Returns an interval without rounding.
inline RangeState exact(const RangeQuery &query, double lo, double hi,
                        bool nan) {
  return RangeState::interval(query.getType(), lo, hi, nan);
}
/// Returns zero if targets may flush `x`, else `x`.
inline double flushed(const RangeQuery &query, double x) {
  return std::fabs(x) < Rounding::of(query.getElement()).normal ? 0 : x;
}

/// Returns a state of the result's type with the interval and NaN of `source`,
/// but without its norms and peak.
RangeState sameInterval(const RangeQuery &query, unsigned result,
                        const RangeState &source);

/// Returns x * y, with zero times infinity as zero.
inline double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RANGES_TRANSFER_H
