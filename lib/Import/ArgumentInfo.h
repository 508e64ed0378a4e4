//===- ArgumentInfo.h - Attributes of main's signature ----------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_ARGUMENTINFO_H
#define SCALIFY_LIB_IMPORT_ARGUMENTINFO_H

#include "scalify/Dialect/Scalify/Donation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::import {

inline constexpr llvm::StringLiteral kDonorAttr = "jax.buffer_donor";
inline constexpr llvm::StringLiteral kResultInfoAttr = "jax.result_info";

/// Returns the public function `@main`. Emits an error on the module if there
/// is none, or if its body is not one block.
mlir::FailureOr<mlir::func::FuncOp> getMain(mlir::ModuleOp module);

/// Returns for each result the aliased argument, or -1.
llvm::SmallVector<int64_t> getAliasedArguments(mlir::func::FuncOp main);

/// Returns `jax.result_info` of a result, or the empty string.
llvm::StringRef getResultInfo(mlir::func::FuncOp main, unsigned index);

/// Returns `scalify.name` of an argument, else the name in its location, else
/// that of the result it is aliased with, else `argN`.
std::string getArgumentName(mlir::func::FuncOp main, unsigned index);

/// Returns the path of an argument's name up to its first key: the argument of
/// the Python function of which it is a leaf.
llvm::StringRef getTreeOf(mlir::func::FuncOp main, unsigned index);

/// Returns the values that main returns.
mlir::OperandRange getResults(mlir::func::FuncOp main);

/// True if a result is argument `index` with slices overwritten, as a cache of
/// keys and values is, also by loops.
bool isWrittenInSlices(mlir::func::FuncOp main, unsigned index);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_ARGUMENTINFO_H
