//===- Expansions.h - Expansion of ops into others --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_EXPANSIONS_H
#define SCALIFY_LIB_FUSION_EXPANSIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// Builds a zero of rank 0.
mlir::Value zeroOf(mlir::ImplicitLocOpBuilder &builder, mlir::Type element);

/// Broadcasts a scalar to all elements of `type`.
mlir::Value spreadOver(mlir::ImplicitLocOpBuilder &builder, mlir::Value scalar,
                       mlir::Type type);

/// Builds ops before an op that compute its results; returns these.
using Expansion =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::ImplicitLocOpBuilder &, mlir::Operation *)>;

/// Expands the ops of a function that `isChosen` selects and whose operands
/// have static shapes. The new ops get the op's discardable attributes, such as
/// its phase. Returns the number of expanded ops.
mlir::FailureOr<unsigned>
expandOps(mlir::func::FuncOp function,
          llvm::function_ref<bool(mlir::Operation *)> isChosen,
          Expansion expand);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_EXPANSIONS_H
