//===- Manifest.h - What the runtime reads first ----------------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_CPU_MANIFEST_H
#define SCALIFY_LIB_TARGET_CPU_MANIFEST_H

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Target/CPU/CPUTarget.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// The manifest without its "sections" and "hash", and the bytes of the
/// constants that its buffers point into.
struct PlanText {
  llvm::json::Object manifest;
  std::string constants;
};

PlanText writeManifest(plan::ProgramOp program,
                       const CPUTargetOptions &options);

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_CPU_MANIFEST_H
