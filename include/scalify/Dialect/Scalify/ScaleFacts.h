//===- ScaleFacts.h - What is known of a value's distribution ---*- C++ -*-===//
//
// Second moments alone fail with depth: the sum of squares in a norm and the
// sum of exponentials in a softmax grow by N, not by sqrt(N), and rsqrt cubed
// amplifies the error in the backward. So each value carries its mean beside
// its root mean square, its sign, a bound, and for masks their density.
//
// There are two kinds of facts. What holds for each element is a join
// semilattice: `covers` is its order, `joinElements` its join. Rules are
// monotone in it for operands that set a scale (FactsTest.cpp); a zero or an
// infinity they read as a mask or a limit. Moments are estimates; where values
// meet, loops and branches take the middle of their exponents (CarryFacts.h),
// which is no join.
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

/// How a scale moves through an op, from its operands to its results.
enum class ScaleFamily {
  /// Nothing that carries a scale.
  Untouched,
  /// The result has the operand's: data is moved or negated.
  Pass,
  /// Each result has that of the operand of its number.
  PassEach,
  /// The operands meet at one scale.
  Align,
  /// The operands meet at one scale, and the sum grows beyond it.
  Reduce,
  /// The product of the operands'.
  Product,
  /// The quotient of the operands'.
  Quotient,
  /// The result starts afresh.
  True,
  /// What the op computes is not known: 2^0, a remark, and an error under
  /// `strict`.
  Opaque,
};

llvm::StringRef stringifyScaleFamily(ScaleFamily family);

/// Sizes along the places of a cumulative sum, as a power of their number.
struct Ramp {
  double power = 0;
  double places = 0;
  /// Counted from the last place.
  bool isReversed = false;

  explicit operator bool() const { return power != 0; }
};

/// What is known of a value's elements. Moments are estimates under the rules'
/// independence assumptions; `bound` and `sign` hold for every element but
/// zeros, infinities and NaN, which are the same at any scale.
struct ScaleFacts {
  double mean = 0.0;
  double rms = 1.0;
  double bound = std::numeric_limits<double>::infinity();
  Sign sign = Sign::Any;
  /// The share of elements that are not a masking constant (for booleans: that
  /// are true).
  double density = 1.0;
  /// Scale by the bound to the top of the format instead of by the root mean
  /// square: few large values matter (probabilities).
  bool scaleByBound = false;
  /// The value of a splat constant.
  std::optional<double> constant;
  /// No element but those: adopts any scale, sets none. The least of facts.
  bool anyScale = false;
  /// A finite masking constant (-1e9, the lowest finite value) may stand among
  /// the elements, beside the data that the moments describe. The value stays a
  /// true value: at another scale the constant could overflow, or come near
  /// the data.
  bool masked = false;
  /// Elements are 0 or 1, with ones in a share of `mean`.
  bool indicator = false;
  /// How sizes differ along the places of a cumulative sum that it is made of.
  Ramp ramp;
  /// The rule that set the scale, for reports.
  std::string rule;

  /// Joins what holds for each element: afterwards it holds for those of
  /// `other` too. Moments, density and rule stay.
  void joinElements(const ScaleFacts &other);
  /// Whether what holds for each element here does for those of `other`.
  bool covers(const ScaleFacts &other) const;

  double variance() const { return std::max(0.0, rms * rms - mean * mean); }
  /// log2 of the power-of-two scale for these facts.
  int64_t scaleExponent() const;

  static ScaleFacts constantOf(double value);
  static ScaleFacts gaussian(double rms);
  static ScaleFacts moments(double mean, double variance);
};

/// What a rule may ask.
struct FactsQuery {
  mlir::Operation *op;
  llvm::function_ref<const ScaleFacts &(mlir::Value)> lookup;

  const ScaleFacts &operand(unsigned i) const;
  const ScaleFacts &of(mlir::Value value) const { return lookup(value); }
};

} // namespace scalify

#endif // SCALIFY_DIALECT_SCALIFY_SCALEFACTS_H
