//===- CheckShardings.h - Reject programs for several devices ---*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H
#define SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Fails if the module shards values over several devices: an artefact is for
/// one. The error names the way to a program for one device.
llvm::LogicalResult checkIsSingleDevice(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H
