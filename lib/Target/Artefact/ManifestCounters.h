//===- ManifestCounters.h - Counters of casts in a manifest -----*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTCOUNTERS_H
#define SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTCOUNTERS_H

#include "scalify/Dialect/Plan/Plan.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace scalify::manifest {

/// Returns how often a step runs the program; nothing if that depends on data.
std::optional<int64_t> countRuns(plan::ProgramOp program);

/// The counters of casts, which all functions of an artefact share. All kernels
/// of a cast, as in the iterations of an unrolled loop, add to one counter.
class Counters {
public:
  /// Orders them like the casts' scales, if these are an argument of the step:
  /// @rescale reads both by index.
  explicit Counters(plan::ProgramOp step);

  /// Adds the counters of a kernel's casts and their indices to its command.
  /// Counters have the elements of all `runs`; without a number, the command
  /// has those of one run, and the runtime counts the runs.
  void add(plan::KernelOp kernel, std::optional<int64_t> runs,
           llvm::json::Object &command);

  llvm::json::Array take() { return std::move(rows); }

private:
  llvm::json::Object &find(mlir::StringRef cast, int64_t &index);

  llvm::StringMap<int64_t> indices; // by name of the cast
  llvm::json::Array rows;
};

} // namespace scalify::manifest

#endif // SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTCOUNTERS_H
