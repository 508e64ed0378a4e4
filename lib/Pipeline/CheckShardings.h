//===- CheckShardings.h - A step is one device's program --------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H
#define SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Fails, with the way to a program for one device, where the module says how
/// values lie on several: an artefact is for one.
llvm::LogicalResult checkIsLocal(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_CHECKSHARDINGS_H
