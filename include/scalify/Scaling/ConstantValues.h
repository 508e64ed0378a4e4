//===- ConstantValues.h - Values built from constants alone -----*- C++ -*-===//

#ifndef SCALIFY_SCALING_CONSTANTVALUES_H
#define SCALIFY_SCALING_CONSTANTVALUES_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace scalify {

/// Evaluates number tensors that are built from constants and indices alone:
/// positions, angles, frequencies, schedules. Ops must be passed in program
/// order. Large tensors and ops without an evaluator are unknown.
class ConstantValues {
public:
  /// Returns the facts of the op's result, so that no rule has to estimate
  /// them. Returns none for unknown values, for constants, which have a rule,
  /// and for zeros, which fit any scale.
  std::optional<ScaleFacts> infer(mlir::Operation &op);

private:
  using Elements = std::vector<double>;

  std::optional<Elements> lookup(mlir::Value value) const;
  std::optional<Elements> evaluate(mlir::Operation &op) const;
  std::optional<Elements> join(stablehlo::ConcatenateOp op) const;

  llvm::DenseMap<mlir::Value, Elements> known;
};

} // namespace scalify

#endif // SCALIFY_SCALING_CONSTANTVALUES_H
