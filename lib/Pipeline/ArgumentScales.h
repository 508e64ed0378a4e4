//===- ArgumentScales.h - Scales as an input of compilation -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_ARGUMENTSCALES_H
#define SCALIFY_LIB_PIPELINE_ARGUMENTSCALES_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Sets `scalify.scale` on main's arguments. An argument that main does not
/// have, or that is not a floating-point tensor, is an error.
mlir::LogicalResult applyArgumentScales(mlir::ModuleOp module,
                                        llvm::ArrayRef<ArgumentScale> scales);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_ARGUMENTSCALES_H
