//===- Rows.h - Structure behind relations of ops ---------------*- C++ -*-===//
//
// What patterns ask of the ops around them: whether two values are computed
// alike, and where a value that is constant along rows comes from.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_LIB_SCALING_RANGES_ROWS_H
#define SCALIFY_LIB_SCALING_RANGES_ROWS_H

#include "Transfer.h"

namespace scalify {

/// The value behind conversions between float types.
mlir::Value skipConverts(mlir::Value value);

/// The coarsest rounding among the types that the value goes through. Targets
/// may keep the wider one for some uses and round for others.
double getRounding(mlir::Value value);

/// Whether two values are computed alike from the same values, up to the
/// rounding of conversions, which `getRounding` of both tells. A conversion
/// further up could make any difference.
bool isSame(mlir::Value a, mlir::Value b);

/// The one value of all elements of a constant, seen through broadcasts.
std::optional<double> getSplat(mlir::Value value);

/// The number of elements of a row of `value` along `axes`.
double countAlong(mlir::Value value, AxisSet axes);

/// A value that is constant along some axes of a tensor, followed from where
/// it has the tensor's shape up to where it is computed. `axis[i]` is the axis
/// of `value` that axis i of the tensor reads, or -1.
struct RowValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> axis;
  /// The coarsest rounding on the way.
  double rounding = 0;

  explicit RowValue(mlir::Value full);
  /// The same rows of another value of the same shape.
  RowValue follow(mlir::Value operand) const;
  void skipMoves();
  /// Whether the value is a reduction of `input`, of the tensor's shape, such
  /// that each element reads the reduction of its own row.
  bool isReductionOf(mlir::Value input, ReductionKind kind,
                     AxisSet &axes) const;
  /// The same of a sum that starts at zero.
  bool isSumOver(mlir::Value terms, AxisSet &axes) const;
};

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RANGES_ROWS_H
