//===- ArgumentRoles.h - Roles as an input of compilation -------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H
#define SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Sets `scalify.role` on main's arguments whose names match, in place of what
/// Import has found; of several roles the first counts. A role that there is
/// not, and a pattern that meets no argument, is an error.
mlir::LogicalResult applyArgumentRoles(mlir::ModuleOp module,
                                       llvm::ArrayRef<ArgumentRole> roles);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H
