//===- KeptArgument.h - State that the compiler adds to main ----*- C++ -*-===//

#ifndef SCALIFY_PRECISION_KEPTARGUMENT_H
#define SCALIFY_PRECISION_KEPTARGUMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {

/// Appends to main an argument that the executable keeps between steps, and the
/// type of the result to which it is donated. `name` starts with `scalify.`.
/// The caller appends the operand of the return op.
llvm::FailureOr<mlir::BlockArgument>
addKeptArgument(mlir::func::FuncOp main, mlir::RankedTensorType type,
                llvm::StringRef name,
                llvm::ArrayRef<mlir::NamedAttribute> attrs = {});

} // namespace scalify

#endif // SCALIFY_PRECISION_KEPTARGUMENT_H
