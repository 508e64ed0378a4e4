//===- LoopIndices.h - Integers that a loop's iteration determines -*- C++ -*-//

#ifndef SCALIFY_DIALECT_STABLEHLO_LOOPINDICES_H
#define SCALIFY_DIALECT_STABLEHLO_LOOPINDICES_H

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace scalify::stablehlo {

/// An integer that is `start` in the first iteration and grows by `step` in
/// each.
struct LoopIndex {
  int64_t start = 0, step = 0;

  int64_t at(int64_t iteration) const { return start + step * iteration; }
  bool operator==(const LoopIndex &other) const {
    return start == other.start && step == other.step;
  }
};

/// Finds the values of rank 0 in the body of a loop of known trip count that
/// are such integers in all iterations. Arithmetic that wraps around is none.
class LoopIndices {
public:
  explicit LoopIndices(int64_t trips) : trips(trips) {}
  /// Knows the counters of the loop, and nothing if its trip count is unknown.
  explicit LoopIndices(WhileOp loop);

  /// Knows a value, unless its type does not hold the index in all iterations.
  void set(mlir::Value value, LoopIndex index) {
    known[value] = fit(value, index);
  }
  std::optional<LoopIndex> find(mlir::Value value);

private:
  std::optional<LoopIndex> compute(mlir::Operation *op);
  std::optional<LoopIndex> fit(mlir::Value value, LoopIndex index) const;
  std::optional<bool> compare(mlir::Operation *op);
  int64_t least(LoopIndex index) const;
  int64_t most(LoopIndex index) const;

  int64_t trips;
  llvm::DenseMap<mlir::Value, std::optional<LoopIndex>> known;
};

} // namespace scalify::stablehlo

#endif // SCALIFY_DIALECT_STABLEHLO_LOOPINDICES_H
