//===- Rows.h - Structural queries of idioms --------------------*- C++ -*-===//
//
// Matchers ask whether two values are computed identically, and where a value
// that is constant along rows comes from.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IDIOMS_ROWS_H
#define SCALIFY_IDIOMS_ROWS_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

namespace scalify {

/// The purpose of a match.
enum class MatchFor {
  /// A conclusion about any values: every element reads its own row, and the
  /// match knows the coarsest format in between.
  Proof,
  /// A prediction of sizes. Also looks through what seldom changes them: any
  /// reshape, a barrier, a clamp by a constant.
  Estimate,
};

enum class ReductionKind { Unknown, Add, Multiply, Max, Min, First, Second };
/// Returns the kind of a region of two scalar arguments: one op on both, or one
/// of them unchanged. `pair` selects arguments `pair` and `pair + count`.
ReductionKind getReductionKind(mlir::Region &region, unsigned pair = 0);

/// Looks through ops that change only a value's shape or type, or clamp it by a
/// constant: broadcasts, reshapes, converts, barriers, max(x, constant).
mlir::Value peelToSource(mlir::Value value);

/// Looks through conversions between float types.
mlir::Value skipConverts(mlir::Value value);

/// Returns the coarsest among the types that the value goes through. Targets
/// may keep the wider value for some uses and round it for others.
mlir::FloatType getCoarsest(mlir::Value value);
/// Returns the coarser of two types, each of which may be null.
mlir::FloatType coarserOf(mlir::FloatType a, mlir::FloatType b);

/// True if two values are computed by identical ops from the same values, up to
/// the rounding of their last conversions, which `getCoarsest` of both returns.
/// A conversion further up could make any difference.
bool isSame(mlir::Value a, mlir::Value b);

/// Returns the value of a splat constant, also of one that a loop carries, as
/// JAX's zeros, looking through broadcasts.
std::optional<double> getSplat(mlir::Value value);

/// Returns the number of elements of a ranked tensor of static shape.
double countElements(mlir::Value value);
/// Returns the number of elements along some of its dimensions.
double countElements(mlir::Value value, llvm::ArrayRef<int64_t> dims);

/// A value that is constant along some axes of a tensor, followed from a use of
/// the tensor's shape back to its definition. `axis[i]` is the axis of `value`
/// that axis i of the tensor reads, or -1; an estimate does not know it.
struct RowValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> axis;
  /// The coarsest format on the path, or null.
  mlir::FloatType coarsest;
  MatchFor purpose;

  RowValue(mlir::Value full, MatchFor purpose);
  /// Returns the same rows of another value of the same shape.
  RowValue follow(mlir::Value operand) const;
  /// If the value is a reduction of `input`, which has the tensor's shape, and
  /// each element reads the reduction of its own row, returns the reduction.
  /// For a proof a sum starts at zero.
  stablehlo::ReduceOp getReduction(mlir::Value input, ReductionKind kind) const;

private:
  void skipMoves();
};

} // namespace scalify

#endif // SCALIFY_IDIOMS_ROWS_H
