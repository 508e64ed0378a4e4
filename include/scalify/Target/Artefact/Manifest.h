//===- Manifest.h - What the runtime reads first ----------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_MANIFEST_H
#define SCALIFY_TARGET_ARTEFACT_MANIFEST_H

#include "scalify/Dialect/Plan/Plan.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// On a kernel: the threads of a block, where a GPU runs it.
inline constexpr llvm::StringLiteral kThreadsAttr = "plan.threads";

/// The manifest without its "sections" and "hash", and the bytes of the
/// constants that its buffers point into.
struct PlanText {
  llvm::json::Object manifest;
  std::string constants;
};

PlanText writeManifest(plan::ProgramOp program, llvm::StringRef target,
                       llvm::StringRef recipe);

/// A part of the file behind the manifest.
struct Section {
  llvm::StringRef name, bytes;
  /// Equal programs are one artefact however these bytes were made.
  bool countsForHash = true;
};

/// The file: header, manifest, sections in their order. An error, at `loc`, if
/// the manifest holds a number that JSON has no text for.
mlir::FailureOr<std::string> assembleArtefact(mlir::Location loc,
                                              PlanText &text,
                                              llvm::ArrayRef<Section> sections);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_MANIFEST_H
