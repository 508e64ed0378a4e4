//===- ArgumentRoles.h - Import's knowledge of arguments --------*- C++ -*-===//

#ifndef SCALIFY_IMPORT_ARGUMENTROLES_H
#define SCALIFY_IMPORT_ARGUMENTROLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Returns of each argument of an imported main whether its name may choose its
/// role: the flow of data does not tell data from weights that the step does
/// not train, or which kind of state the argument is.
llvm::SmallVector<bool> findArgumentsByName(mlir::func::FuncOp main);

} // namespace scalify

#endif // SCALIFY_IMPORT_ARGUMENTROLES_H
