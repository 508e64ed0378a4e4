//===- RangeState.h - What is proved of a value's magnitude -----*- C++ -*-===//
//
// The domain of the range analysis: an interval, and bounds on norms along
// sets of axes. A bound on the 2-norm along the set T says: however the other
// indices are fixed, the 2-norm over T is at most that. The largest magnitude
// is the case of the empty set, a row's norm that of one axis, the Frobenius
// norm that of all. Each implies bounds for every other set, so a state keeps
// only those that say more than the rest.
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

struct NormBound {
  AxisSet axes = 0;
  double bound = 0;
  bool operator==(const NormBound &other) const {
    return axes == other.axes && bound == other.bound;
  }
};

/// How far results of an element type may be from exact ones.
struct Rounding {
  /// Of one op, several units in the last place: targets contract products
  /// into sums, divide by reciprocals and approximate functions.
  double relative = 0;
  /// The smallest magnitude: what rounding adds where relative bounds end.
  double absolute = 0;
  /// The largest finite magnitude; what exceeds it may become infinite.
  double largest = std::numeric_limits<double>::infinity();
  /// The smallest normal magnitude: targets may flush what lies below to zero.
  double normal = 0;

  static Rounding of(mlir::Type element);
  /// The factor by which rounding changes a sum of `count` terms at most, in
  /// any order; `wide` if it is accumulated in F32 at least.
  static double ofSum(mlir::Type element, double count, bool wide);
};

class RangeState {
public:
  /// Nothing is known but the type: integers are within their type's range.
  static RangeState unknown(mlir::Type type);
  static RangeState interval(mlir::Type type, double lo, double hi,
                             bool nan = false);

  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  /// An element may be NaN. All bounds are of the elements that are not.
  bool nan = true;
  /// Before the first visit; the lattice's bottom.
  bool initialized = false;
  llvm::SmallVector<NormBound, 2> l2, l1;
  /// Each row along these axes has an element that is at least this.
  std::optional<NormBound> peak;
  /// Bit i: these bounds rest on those of operand i of the defining op.
  uint64_t sources = ~uint64_t(0);

  double maxAbs() const { return std::max(-lo, hi); }
  bool isBounded() const { return maxAbs() < infinity(); }
  bool isFinite() const { return isBounded() && !nan; }
  bool isNonNegative() const { return lo >= 0; }
  static double infinity() { return std::numeric_limits<double>::infinity(); }

  int64_t getRank() const { return shape.size(); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// All axes of more than one element.
  AxisSet allAxes() const;
  /// Number of elements of a row along `axes`.
  double count(AxisSet axes) const;

  /// The least bound that follows for the norm along `axes`.
  double getL2(AxisSet axes) const;
  double getL1(AxisSet axes) const;
  /// The sets for which a norm is kept.
  llvm::SmallVector<AxisSet, 4> getNormAxes() const;

  /// Keeps a bound if it says more than what is known.
  void addL2(AxisSet axes, double bound);
  void addL1(AxisSet axes, double bound);
  /// Widens everything by the rounding of one op, and lets what may overflow
  /// the type be infinite.
  void round(mlir::Type element, double factor = 1);
  void clampToType(mlir::Type element);
  /// Targets may read and write what is below the smallest normal number as
  /// zero, of either sign: no bound may say that it is not.
  void allowFlush(mlir::Type element);

  /// What holds of an element of either.
  static RangeState join(const RangeState &a, const RangeState &b);
  /// As `join`, but what grew is given up, so that loops end.
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
