//===- Rows.h - Structural queries of range patterns ------------*- C++ -*-===//
//
// Patterns ask whether two values are computed identically, and where a value
// that is constant along rows comes from.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RANGES_ROWS_H
#define SCALIFY_LIB_SCALING_RANGES_ROWS_H

#include "Transfer.h"

namespace scalify {

/// Looks through conversions between float types.
mlir::Value skipConverts(mlir::Value value);

/// Returns the coarsest rounding among the types that the value goes through.
/// Targets may keep the wider value for some uses and round it for others.
double getRounding(mlir::Value value);

/// True if two values are computed by identical ops from the same values, up to
/// the rounding of their last conversions, which `getRounding` of both returns.
/// A conversion further up could make any difference.
bool isSame(mlir::Value a, mlir::Value b);

/// Returns the value of a splat constant, looking through broadcasts.
std::optional<double> getSplat(mlir::Value value);

/// Returns the number of elements of a row of `value` along `axes`.
double countElementsAlong(mlir::Value value, AxisSet axes);

/// A value that is constant along some axes of a tensor, followed from a use of
/// the tensor's shape back to its definition. `axis[i]` is the axis of `value`
/// that axis i of the tensor reads, or -1.
struct RowValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> axis;
  /// The coarsest rounding on the path.
  double rounding = 0;

  explicit RowValue(mlir::Value full);
  /// Returns the same rows of another value of the same shape.
  RowValue follow(mlir::Value operand) const;
  void skipMoves();
  /// True if the value is a reduction of `input`, which has the tensor's shape,
  /// and each element reads the reduction of its own row.
  bool isReductionOf(mlir::Value input, ReductionKind kind,
                     AxisSet &axes) const;
  /// The same for a sum that starts at zero.
  bool isSumOver(mlir::Value terms, AxisSet &axes) const;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RANGES_ROWS_H
