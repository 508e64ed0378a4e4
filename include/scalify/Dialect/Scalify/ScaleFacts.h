//===- ScaleFacts.h - Facts on a value's distribution -----------*- C++ -*-===//
//
// Second moments alone fail with depth: the sum of squares in a norm and the
// sum of exponentials in a softmax grow by N, not by sqrt(N), and rsqrt cubed
// amplifies the error in the backward. So each value has, besides its root mean
// square, its mean, its sign, a bound, and for masks their density.
//
// There are two kinds of facts. Facts on each element form a join semilattice:
// `covers` is its order, `joinElements` its join. Rules are monotone in it for
// operands that set a scale (FactsTest.cpp); they interpret a zero or an
// infinity as a mask or a limit. Moments are estimates. Where values meet,
// loops and branches take the middle of their exponents (CarryFacts.h), which
// is not a join.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DIALECT_SCALIFY_SCALEFACTS_H
#define SCALIFY_DIALECT_SCALIFY_SCALEFACTS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace scalify {

enum class Sign { Any, NonNegative, NonPositive };

/// How an op maps the scales of its operands to those of its results.
enum class ScaleFamily {
  /// The op carries no scale.
  Untouched,
  /// The result has the operand's scale: data is moved or negated.
  Pass,
  /// Each result has the scale of the operand of the same index.
  PassEach,
  /// The operands are aligned to one scale.
  Align,
  /// The operands are aligned to one scale, and the sum grows beyond it.
  Reduce,
  /// The product of the operands' scales.
  Product,
  /// The quotient of the operands' scales.
  Quotient,
  /// The result has a scale of its own.
  True,
  /// The op's computation is unknown: 2^0, a remark, and an error under
  /// `strict`.
  Opaque,
};

llvm::StringRef stringifyScaleFamily(ScaleFamily family);

/// Magnitudes along the positions of a cumulative sum, as a power of the
/// position.
struct Ramp {
  double power = 0;
  double places = 0;
  /// True if positions count from the last one.
  bool isReversed = false;

  explicit operator bool() const { return power != 0; }
};

/// Facts on a value's elements. Moments are estimates under the rules'
/// independence assumptions. `bound` and `sign` hold for every element except
/// zeros, infinities and NaN, which are the same at any scale.
struct ScaleFacts {
  double mean = 0.0;
  double rms = 1.0;
  double bound = std::numeric_limits<double>::infinity();
  Sign sign = Sign::Any;
  /// The fraction of elements that are not a masking constant (for booleans:
  /// that are true).
  double density = 1.0;
  /// Scale by the bound to the top of the format instead of by the root mean
  /// square: few large values dominate (probabilities).
  bool scaleByBound = false;
  /// The value of a splat constant.
  std::optional<double> constant;
  /// All elements are zeros, infinities or NaN: adopts any scale, sets none.
  /// The bottom of the lattice.
  bool anyScale = false;
  /// The elements may include a finite masking constant (-1e9, the lowest
  /// finite value), apart from the data that the moments describe. The value
  /// stays unscaled: at another scale the constant could overflow, or approach
  /// the data.
  bool masked = false;
  /// Elements are 0 or 1; the fraction of ones is `mean`.
  bool indicator = false;
  /// Magnitudes along the positions of the cumulative sum that the value
  /// derives from.
  Ramp ramp;
  /// The rule that set the scale, for reports.
  std::string rule;

  /// Joins the facts on each element, so that they also hold for elements of
  /// `other`. Moments, density and rule are unchanged.
  void joinElements(const ScaleFacts &other);
  /// True if the facts on each element here also hold for those of `other`.
  bool covers(const ScaleFacts &other) const;

  double variance() const { return std::max(0.0, rms * rms - mean * mean); }
  /// Returns log2 of the power-of-two scale for these facts.
  int64_t scaleExponent() const;

  static ScaleFacts constantOf(double value);
  static ScaleFacts gaussian(double rms);
  static ScaleFacts moments(double mean, double variance);
};

/// The input of a rule: an op, and the facts of values.
struct FactsQuery {
  mlir::Operation *op;
  llvm::function_ref<const ScaleFacts &(mlir::Value)> lookup;

  const ScaleFacts &operand(unsigned i) const;
  const ScaleFacts &of(mlir::Value value) const { return lookup(value); }
};

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALEFACTS_H
