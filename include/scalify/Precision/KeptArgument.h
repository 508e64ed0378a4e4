//===- KeptArgument.h - State of main that is not the user's ----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_KEPTARGUMENT_H
#define SCALIFY_PRECISION_KEPTARGUMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Appends an argument that the executable keeps between steps, under a name
/// that starts with `scalify.`, and the type of a result to which it is
/// donated. The caller appends the operand of the return.
llvm::FailureOr<mlir::BlockArgument>
addKeptArgument(mlir::func::FuncOp main, mlir::RankedTensorType type,
                llvm::StringRef name,
                llvm::ArrayRef<mlir::NamedAttribute> attrs = {});

} // namespace scalify

#endif // SCALIFY_PRECISION_KEPTARGUMENT_H
