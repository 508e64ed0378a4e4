//===- RangeState.h - Bounds on a value's magnitude -------------*- C++ -*-===//
//
// The domain of the range analysis: an interval, and bounds on norms along sets
// of axes. A bound b on the 2-norm along the set T means: for any fixed other
// indices, the 2-norm over T is at most b. The empty set gives the largest
// magnitude, one axis a row's norm, all axes the Frobenius norm. Each bound
// implies bounds for all other sets, so a state keeps only bounds that the rest
// do not imply.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_SCALING_RANGESTATE_H
#define SCALIFY_SCALING_RANGESTATE_H

#include "mlir/IR/BuiltinTypes.h"

#include <limits>
#include <optional>

namespace scalify {

/// Bit i is axis i. Tensors of more than 32 axes are not analysed.
using AxisSet = uint32_t;

inline AxisSet toAxisSet(llvm::ArrayRef<int64_t> axes) {
  AxisSet set = 0;
  for (int64_t axis : axes)
    set |= AxisSet(1) << axis;
  return set;
}

struct NormBound {
  AxisSet axes = 0;
  double bound = 0;
  bool operator==(const NormBound &other) const {
    return axes == other.axes && bound == other.bound;
  }
};

/// The distance of computed results of an element type from exact ones.
struct Rounding {
  /// The relative error of one op, several units in the last place: targets
  /// contract products into sums, divide by reciprocals and approximate
  /// functions.
  double relative = 0;
  /// The smallest magnitude: the absolute error near zero, where the relative
  /// one does not hold.
  double absolute = 0;
  /// The largest finite magnitude; a larger result may become infinite.
  double largest = std::numeric_limits<double>::infinity();
  /// The smallest normal magnitude; targets may flush smaller ones to zero.
  double normal = 0;

  static Rounding of(mlir::Type element);
  /// Returns the largest factor by which rounding changes a sum of `count`
  /// terms, in any order. `wide`: the sum accumulates in F32 or wider.
  static double ofSum(mlir::Type element, double count, bool wide);
};

class RangeState {
public:
  /// Returns a state that knows only the type: integers are within its range.
  static RangeState unknown(mlir::Type type);
  static RangeState interval(mlir::Type type, double lo, double hi,
                             bool nan = false);

  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  /// An element may be NaN. All bounds hold for the elements that are not.
  bool nan = true;
  /// False before the first visit: the lattice's bottom.
  bool initialized = false;
  llvm::SmallVector<NormBound, 2> l2, l1;
  /// Each row along these axes has an element of at least this value.
  std::optional<NormBound> peak;
  /// Bit i: these bounds depend on those of operand i of the defining op.
  uint64_t sources = ~uint64_t(0);

  double maxAbs() const { return std::max(-lo, hi); }
  bool isBounded() const { return maxAbs() < infinity(); }
  bool isFinite() const { return isBounded() && !nan; }
  bool isNonNegative() const { return lo >= 0; }
  static double infinity() { return std::numeric_limits<double>::infinity(); }

  int64_t getRank() const { return shape.size(); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// Returns all axes of more than one element.
  AxisSet allAxes() const;
  /// Returns the number of elements of a row along `axes`.
  double count(AxisSet axes) const;

  /// Returns the least bound on the norm along `axes` that follows.
  double getL2(AxisSet axes) const;
  double getL1(AxisSet axes) const;
  /// Returns the axis sets for which a norm is kept.
  llvm::SmallVector<AxisSet, 4> getNormAxes() const;

  /// Adds a bound unless the known ones imply it.
  void addL2(AxisSet axes, double bound);
  void addL1(AxisSet axes, double bound);
  /// Widens all bounds by the rounding of one op. A bound that may overflow the
  /// type becomes infinite.
  void round(mlir::Type element, double factor = 1);
  void clampToType(mlir::Type element);
  /// Lets bounds include zero where they exclude only magnitudes below the
  /// smallest normal one: targets may flush these on reads and writes, to a
  /// zero of either sign.
  void allowFlush(mlir::Type element);

  /// Returns bounds that hold for the elements of both.
  static RangeState join(const RangeState &a, const RangeState &b);
  /// Like `join`, but drops bounds that grew, so that loops terminate.
  static RangeState widen(const RangeState &old, const RangeState &grown);
  bool operator==(const RangeState &other) const;
  void print(llvm::raw_ostream &os) const;

private:
  void add(llvm::SmallVectorImpl<NormBound> &list, AxisSet axes, double bound,
           double implied);

  /// Owned by the type, and so by the context.
  llvm::ArrayRef<int64_t> shape;
};

} // namespace scalify

#endif // SCALIFY_SCALING_RANGESTATE_H
