//===- ConstantValues.h - What is made of constants alone -------*- C++ -*-===//

#ifndef SCALIFY_SCALING_CONSTANTVALUES_H
#define SCALIFY_SCALING_CONSTANTVALUES_H

#include "scalify/Dialect/Scalify/ScaleFacts.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace scalify {

/// The elements of tensors of numbers that constants and indices alone make:
/// positions, angles, frequencies, schedules. Ops are given in order; of large
/// tensors, and of ops that are not evaluated, nothing is known.
class ConstantValues {
public:
  /// Facts of the op's result, which no rule has to estimate, or none.
  /// Constants themselves have a rule; so do zeros, which fit any scale.
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
