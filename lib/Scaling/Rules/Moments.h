//===- Moments.h - Moments of functions of a random value -------*- C++ -*-===//

#ifndef SCALIFY_LIB_SCALING_RULES_MOMENTS_H
#define SCALIFY_LIB_SCALING_RULES_MOMENTS_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"

#include "mlir/IR/Region.h"
#include "llvm/ADT/ArrayRef.h"

namespace scalify {

/// x * x of a normal x: mean rms^2, fourth moment 3 rms^4.
ScaleFacts squareFacts(const ScaleFacts &x);
/// exp of a normal x: log-normal, with masked elements (-inf) giving 0.
ScaleFacts exponentialOf(const ScaleFacts &x);
ScaleFacts logarithmOf(const ScaleFacts &x);
/// Returns the moments of f(x), integrated over a normal x, or over a
/// log-normal one if the sign is known.
ScaleFacts functionOf(const ScaleFacts &x,
                      llvm::function_ref<double(double)> function);
/// x^p: of the mean if it dominates x, else of the magnitude.
ScaleFacts powerOf(const ScaleFacts &x, double power);

/// The largest or smallest of n independent elements.
ScaleFacts extremumOf(const ScaleFacts &x, double n, bool isMax);
/// The largest k of n independent elements.
ScaleFacts getTopKFacts(const ScaleFacts &x, double k, double n);

/// The number of terms of a sum: its moments over the elements of the result,
/// and the most of any element.
struct TermCount {
  double mean = 1;
  double square = 1;
  double most = 1;

  static TermCount of(double n) { return {n, n * n, n}; }
  TermCount times(const TermCount &other) const {
    return {mean * other.mean, square * other.square, most * other.most};
  }
};
/// A sum of independent terms: the mean and the variance grow by their number.
ScaleFacts sumOf(const ScaleFacts &x, const TermCount &n);
/// A sum of products.
ScaleFacts dotOf(const ScaleFacts &a, const ScaleFacts &b, const TermCount &n);

/// A mixture of two sources with shares `share` and 1 - share.
ScaleFacts mixFacts(const ScaleFacts &a, double share, const ScaleFacts &b);
/// The same if neither source masks the other.
ScaleFacts mixData(const ScaleFacts &a, double share, const ScaleFacts &b);

/// True for a finite constant so large beside `data` that it can only be a
/// mask.
bool isMaskingConstant(const ScaleFacts &constant, const ScaleFacts &data);
/// True if a product reads elements of the value, also moved, in sums and
/// multiplied. What masks ends in an exponential, an extremum or a comparison.
bool isReadByProducts(mlir::Value value);

/// P(x <= z) of a standard normal x, and its inverse.
double normalBelow(double z);
double normalQuantile(double p);
/// The expected maximum of n standard normal values (Blom 1958).
double normalMaximum(double n);

Sign flip(Sign sign);
Sign signOfProduct(Sign a, Sign b);
/// Returns a * b, with zero times infinity as zero.
double boundOfProduct(double a, double b);

/// The name of an op without its dialect.
std::string shortName(mlir::Operation *op);

/// Returns the only op of a region besides its return, or null.
mlir::Operation *getSingleBodyOp(mlir::Region &body);

/// True if the region commutes with a positive factor on its floating-point
/// arguments: it adds, compares, selects, and takes extrema.
bool isHomogeneous(mlir::Region &body);

} // namespace scalify

#endif // SCALIFY_LIB_SCALING_RULES_MOMENTS_H
