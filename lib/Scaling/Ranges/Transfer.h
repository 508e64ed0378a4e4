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

namespace scalify {

struct RangeQuery {
  mlir::Operation *op;
  llvm::ArrayRef<const RangeState *> operands;
  /// The state of any value above the op; the caller visits the op again when
  /// it changes.
  llvm::function_ref<const RangeState &(mlir::Value)> lookup;

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

/// Elementwise ops on floats, integers and predicates.
MaybeRange transferElementwise(const RangeQuery &query);
/// Constants, and ops that move elements.
MaybeRange transferShape(const RangeQuery &query, unsigned result);
/// Gather, scatter, dynamic slices, sort.
MaybeRange transferIndexing(const RangeQuery &query, unsigned result);
/// Reductions, windows and collectives.
MaybeRange transferReduction(const RangeQuery &query, unsigned result);
/// Dots and convolutions.
MaybeRange transferProduct(const RangeQuery &query);
/// Tightens the state of an op that is the end of a known pattern: norms,
/// softmax, rotary embedding, SiLU.
void refineByPattern(const RangeQuery &query, RangeState &state);

/// max(select(mask, x, -inf)) along rows that each have an element of x.
void refineMaskedMax(const RangeQuery &query, stablehlo::ReduceOp op,
                     RangeState &state);

/// All of these, in order; unknown where none applies.
RangeState inferRange(const RangeQuery &query, unsigned result);

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
