//===- ManifestParts.h - Parts of a manifest of the module ------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTPARTS_H
#define SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTPARTS_H

#include "scalify/Dialect/Scalify/Targets.h"

#include "llvm/Support/JSON.h"

namespace scalify::manifest {

llvm::json::Value toJSON(mlir::Attribute attr);

/// Returns the name of an element type, as in "f32" and "i1".
std::string typeName(mlir::Type element);

/// Returns the mesh of a step, sizes by names in order, after the stages of a
/// pipeline; empty for one device.
llvm::json::Array meshOf(mlir::ModuleOp module);

/// The runtime needs no list of targets: the manifest has what it must know.
void writeTarget(const TargetInfo &target, llvm::json::Object &manifest);

} // namespace scalify::manifest

#endif // SCALIFY_LIB_TARGET_ARTEFACT_MANIFESTPARTS_H
