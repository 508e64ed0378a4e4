//===- Passes.h - Passes of the Distribution stage --------------*- C++ -*-===//
//
// Distribution turns a program on whole values, sharded over a mesh, into the
// program that each device runs.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_DISTRIBUTION_PASSES_H
#define SCALIFY_DISTRIBUTION_PASSES_H

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace scalify {

#define GEN_PASS_DECL
#include "scalify/Distribution/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "scalify/Distribution/Passes.h.inc"

struct DistributionOptions {
  /// The program of a device is run for so many ranks in one process, or for
  /// as many as its mesh has (0).
  std::optional<int64_t> simulateRanks;
  /// Ranks exchange narrow data where values are narrow anyway.
  bool narrowCollectives = true;
  /// Collectives of stacks are one for each slice. Not of pipelines, where
  /// slices are of several stages.
  bool sliceStacks = true;
  /// Of what a rank gives to a bucket of collectives; 0: none are made.
  int64_t bucketBytes = 0;
  /// A bucket has arrays of one chunk of a pipeline.
  bool bucketsByChunk = false;
  /// The transport's sums are in an order of its own, and ranks make them.
  bool orderSums = false;
};

/// slice sums -> narrow collectives -> slice gathers -> bucket collectives ->
/// order sums, or simulate ranks where they are asked for: one process sends no
/// messages.
void buildDistributionPipeline(mlir::OpPassManager &pm,
                               const DistributionOptions &options);

} // namespace scalify

#endif // SCALIFY_DISTRIBUTION_PASSES_H
