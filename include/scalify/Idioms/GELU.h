//===- GELU.h - GELU and its gradient in a graph ----------------*- C++ -*-===//
//
// Both are matched as polynomials in x and t = tanh(c * (x + d * x^3)),
// whatever order of sums and products the program, its differentiation and our
// own simplifications have left.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_IDIOMS_GELU_H
#define SCALIFY_IDIOMS_GELU_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/SetVector.h"

#include <array>
#include <map>

namespace scalify {

/// Matches GELU in its tanh form, or the gradient of one, from the last op.
class GELUPattern {
public:
  /// Powers of the gradient, of x and of t, and their coefficients.
  using Polynomial = std::map<std::array<int, 3>, double>;

  /// Matches the GELU of `inputs`, which are equal values.
  static GELUPattern of(mlir::ValueRange inputs);
  static GELUPattern ofGradient(mlir::Value gradient);

  bool match(mlir::Operation *last);

  /// Returns the GELU's operand; for a gradient, `match` finds it.
  mlir::Value input() const { return inputs.front(); }

  /// True if the op, with all users of its results, belongs to what was
  /// matched.
  bool isInside(mlir::Operation *op) const;

private:
  std::optional<Polynomial> expand(mlir::Value value);
  std::optional<Polynomial> expandOp(mlir::Operation *op);
  bool isArgument(stablehlo::TanhOp op);
  bool findInput(mlir::Operation *last);
  void insert(mlir::Operation *root);
  bool isLeaf(mlir::Value value) const {
    return value == gradient || inputs.contains(value);
  }

  mlir::Value gradient;
  mlir::FloatType format; // that of the tanh
  llvm::SmallSetVector<mlir::Value, 4> inputs;
  llvm::DenseMap<mlir::Value, std::optional<Polynomial>> known;
  llvm::SmallPtrSet<mlir::Operation *, 16> roots, inner;
};

} // namespace scalify

#endif // SCALIFY_IDIOMS_GELU_H
