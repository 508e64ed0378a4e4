//===- Idioms.h - Computations that programs write as several ops -*- C++ -*-=//
//
// A matcher recognises one computation, by structure and not by name, from its
// last op, and returns its operands. It concludes nothing: the rules of Scaling
// attach facts, its range analysis bounds, Fusion kernels. A matcher whose
// clients prove and estimate takes the purpose; what an estimate matches beyond
// a proof is said beside it.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IDIOMS_IDIOMS_H
#define SCALIFY_IDIOMS_IDIOMS_H

#include "scalify/Idioms/Rows.h"

namespace scalify::idioms {

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// numerator * input / sqrt(scale * sum(squares) + eps), times other factors,
/// which are constant along rows. LayerNorm, if the input is x - mean(x).
struct Norm {
  mlir::Value input;
  /// The root's operand: the mean square and eps.
  mlir::Value meanSquare;
  stablehlo::ReduceOp sum;
  stablehlo::MulOp squares;
  double width = 1; // terms of the sum
  double scale = 1, eps = 0, numerator = 1;
  llvm::SmallVector<mlir::Value, 2> factors;
  mlir::FloatType coarsest;
};

/// An estimate's mean square may also have terms of unknown value, and may be
/// that of x - mean(x) where the input is x, or the reverse.
std::optional<Norm> matchNorm(mlir::Operation *op, MatchFor purpose);

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

/// a cos(angle) + b sin(angle), or their difference.
struct Rotation {
  mlir::Value a, b;
  RowValue angle;
  mlir::FloatType coarsest;
};

/// An estimate does not compare the two angles.
std::optional<Rotation> matchRotation(mlir::Operation *op, MatchFor purpose);

/// The two halves of a rotated pair (a, b), concatenated. `whole` is the tensor
/// of which a and b are disjoint slices, or null.
struct RotatedPair {
  mlir::Value a, b, whole;
  mlir::FloatType coarsest;
};
std::optional<RotatedPair> matchRotatedPair(stablehlo::ConcatenateOp op);

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// x - max(x) of each row.
struct MaxSubtraction {
  mlir::Value input;
  stablehlo::ReduceOp max; // null if the rows are segments
  double width = 1;        // elements of a row
  /// True if the maximum itself is subtracted, not a larger constant.
  bool isAttained = false;
  /// The match holds only if this value is finite, unless it is null.
  mlir::Value ifFinite;
  mlir::FloatType coarsest;
};

/// An estimate's rows may be segments, as uses of `segment_max` reduce them.
std::optional<MaxSubtraction> matchMaxSubtraction(mlir::Value value,
                                                  MatchFor purpose);

/// x / (sum(x) + eps) of each row: its share of the sum, if x is not negative.
struct Share {
  mlir::Value input;
  stablehlo::ReduceOp sum; // null if the rows are segments
  double width = 1;        // terms of the sum
  mlir::FloatType coarsest;
};

/// A proof has no eps. An estimate's rows may be segments.
std::optional<Share> matchShare(mlir::Operation *op, MatchFor purpose);

/// exp(x - max(x)) / sum(exp(x - max(x))) of each row, as proved.
struct Softmax {
  MaxSubtraction shift;
  stablehlo::ExpOp exponentials;
  Share share;
};
std::optional<Softmax> matchSoftmax(mlir::Operation *op);

/// x - log(sum(exp(x))), or x - (m + log(sum(exp(x - m)))) with the maximum m,
/// as logsumexp computes it. For estimates.
struct LogSoftmax {
  mlir::Value input;
  double width = 1; // elements of a row
};
std::optional<LogSoftmax> matchLogSoftmax(mlir::Value value);

/// True if `value` is the mean of `x` over some dimensions. For estimates.
bool isMeanOf(mlir::Value value, mlir::Value x);

//===----------------------------------------------------------------------===//
// Error functions, and products with a sigmoid
//===----------------------------------------------------------------------===//

/// erf, or erfc, as Import expands them.
struct ErrorFunction {
  mlir::Value input;
  bool isComplement = false;
};
std::optional<ErrorFunction> matchErrorFunction(mlir::Value value);

/// x g(x), where g rises from 0 to `top`: SiLU and the forms of GELU.
struct GatedValue {
  enum class Gate { Logistic, Tanh, ErrorFunction };
  mlir::Value input;
  Gate gate;
  double top = 1;
  mlir::FloatType coarsest = {};
};

/// For a proof, x * logistic(x), also with 1 / (1 + exp(-x)). An estimate
/// follows the gate's operand back to x through a few sums and products; the
/// polynomial of GELU's tanh form is checked by GELUPattern (GELU.h).
std::optional<GatedValue> matchGatedValue(mlir::Operation *op,
                                          MatchFor purpose);

} // namespace scalify::idioms

#endif // SCALIFY_IDIOMS_IDIOMS_H
