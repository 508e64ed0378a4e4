//===- ArgumentRoles.h - Roles as an input of compilation -------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H
#define SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Sets `scalify.role` on main's arguments whose names match, overriding what
/// Import found. If several patterns match, the first applies. An unknown role
/// and a pattern that matches no argument are errors.
mlir::LogicalResult applyArgumentRoles(mlir::ModuleOp module,
                                       llvm::ArrayRef<ArgumentRole> roles);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_ARGUMENTROLES_H
