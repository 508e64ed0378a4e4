//===- ManifestTrial.h - Trial runs of a step ------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTTRIAL_H
#define SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTTRIAL_H

#include "scalify/Dialect/Plan/Plan.h"

#include "llvm/ADT/DenseSet.h"

#include <set>

namespace scalify::manifest {

/// What a trial of a step does not do.
struct Trial {
  /// Commands on which no count of a cast, no scale that the step moves and
  /// nothing outside of the step's memory depends. In a step of training these
  /// are the optimizer's.
  llvm::DenseSet<mlir::Operation *> updates;
  /// Donated arguments that only these commands write.
  std::set<int64_t> spared;
};

Trial findTrial(plan::ProgramOp step);

} // namespace scalify::manifest

#endif // SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTTRIAL_H
