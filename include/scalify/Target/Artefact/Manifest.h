//===- Manifest.h - Manifest and assembly of artefacts ----------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_MANIFEST_H
#define SCALIFY_TARGET_ARTEFACT_MANIFEST_H

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Targets.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// The manifest without its "sections" and "hash", and the bytes of constants
/// that its buffers refer to.
struct PlanText {
  llvm::json::Object manifest;
  std::string constants;
};

/// Emits an error if the module has no `plan.program @step`.
mlir::FailureOr<PlanText> writeManifest(mlir::ModuleOp module,
                                        const TargetInfo &target,
                                        llvm::StringRef recipe);

/// A part of the file after the manifest.
struct Section {
  llvm::StringRef name, bytes;
  /// False if equal programs are one artefact whatever these bytes are.
  bool countsForHash = true;
};

/// Returns the file: header, manifest, sections in order. Emits an error at
/// `loc` if the manifest holds a number that JSON cannot represent.
mlir::FailureOr<std::string> assembleArtefact(mlir::Location loc,
                                              PlanText &text,
                                              llvm::ArrayRef<Section> sections);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_MANIFEST_H
