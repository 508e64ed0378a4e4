//===- Expansions.h - Ops that become others --------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_EXPANSIONS_H
#define SCALIFY_LIB_FUSION_EXPANSIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace scalify {

/// A constant of rank 0 that is zero.
mlir::Value zeroOf(mlir::ImplicitLocOpBuilder &builder, mlir::Type element);

/// One number for all elements of a type.
mlir::Value spreadOver(mlir::ImplicitLocOpBuilder &builder, mlir::Value scalar,
                       mlir::Type type);

/// Writes an op by others in front of it; returns what stands for its results.
using Expansion =
    llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::ImplicitLocOpBuilder &, mlir::Operation *)>;

/// Expands the ops of a function that are chosen and whose operands have static
/// shapes. What takes an op's place has its discardable attributes, as its
/// phase. Returns how many there were.
mlir::FailureOr<unsigned>
expandOps(mlir::func::FuncOp function,
          llvm::function_ref<bool(mlir::Operation *)> isChosen,
          Expansion expand);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_EXPANSIONS_H
