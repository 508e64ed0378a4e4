//===- Transfer.h - What ops do to bounds -----------------------*- C++ -*-===//
//
// One transfer function per family of ops. Each takes the states of the
// operands and gives that of a result, sound for what a target computes: exact
// arithmetic widened by Rounding. A family that does not know the op returns
// nothing, and the value is unknown.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RANGES_TRANSFER_H
#define SCALIFY_LIB_SCALING_RANGES_TRANSFER_H

#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Scaling/RangeState.h"

#include "mlir/IR/Operation.h"

#include <cmath>

namespace scalify {

struct RangeQuery {
  mlir::Operation *op;
  llvm::ArrayRef<const RangeState *> operands;
  /// The state of any value above the op; the caller visits the op again when
  /// it changes.
  llvm::function_ref<const RangeState &(mlir::Value)> lookup;
  /// Whether operands may be other roundings of values that a pattern reads.
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

/// The format in which the recipe saves what `op` reads of the forward; null
/// if it does not, or `op` is of the forward itself.
mlir::FloatType getSavedFormat(mlir::Operation *op);
/// The state of an operand of an op with that format.
RangeState readOperand(mlir::Value value, const RangeState &state,
                       mlir::FloatType saved);

/// Tightens the state of an op that is the end of a known pattern: norms,
/// softmax, rotary embedding, SiLU.
void refineByPattern(const RangeQuery &query, RangeState &state);

/// a cos t - b sin t: at most |(a, b)|.
void refineRotation(const RangeQuery &query, RangeState &state);
/// Two halves of a rotated pair, joined: the pair's norm stays. If the halves
/// were the two slices of one tensor, that is the tensor's norm.
void refineRotatedPair(const RangeQuery &query, stablehlo::ConcatenateOp op,
                       RangeState &state);

/// max(select(mask, x, -inf)) along rows that each have an element of x.
void refineMaskedMax(const RangeQuery &query, stablehlo::ReduceOp op,
                     RangeState &state);

/// All of these, in order; unknown where none applies.
RangeState inferRange(const RangeQuery &query, unsigned result);

/// An exact interval.
inline RangeState exact(const RangeQuery &query, double lo, double hi,
                        bool nan) {
  return RangeState::interval(query.getType(), lo, hi, nan);
}
/// What targets may flush to zero counts as zero.
inline double flushed(const RangeQuery &query, double x) {
  return std::fabs(x) < Rounding::of(query.getElement()).normal ? 0 : x;
}

/// A state of the result's type with bounds and peak of another shape's state
/// left out: interval and NaN alone.
RangeState sameInterval(const RangeQuery &query, unsigned result,
                        const RangeState &source);

enum class ReductionKind { Unknown, Add, Multiply, Max, Min, First, Second };
/// What a region of two scalar arguments computes: one op on both, or one of
/// them unchanged. `pair` picks arguments `pair` and `pair + count`.
ReductionKind getReductionKind(mlir::Region &region, unsigned pair = 0);

/// x * y without zero times infinity.
inline double product(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RANGES_TRANSFER_H
