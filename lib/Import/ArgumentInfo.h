//===- ArgumentInfo.h - What main's signature says --------------*- C++ -*-===//

#ifndef SCALIFY_LIB_IMPORT_ARGUMENTINFO_H
#define SCALIFY_LIB_IMPORT_ARGUMENTINFO_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::import {

inline constexpr llvm::StringLiteral kAliasAttr = "tf.aliasing_output";
inline constexpr llvm::StringLiteral kDonorAttr = "jax.buffer_donor";
inline constexpr llvm::StringLiteral kResultInfoAttr = "jax.result_info";

/// The public function `@main`; an error on the module if there is none, or one
/// without a body of one block.
mlir::FailureOr<mlir::func::FuncOp> getMain(mlir::ModuleOp module);

/// The result that argument `index` shares its memory with.
std::optional<unsigned> getAliasedResult(mlir::func::FuncOp main,
                                         unsigned index);

/// For each result the argument that it shares memory with, or -1.
llvm::SmallVector<int64_t> getAliasedArguments(mlir::func::FuncOp main);

/// `jax.result_info` of a result, or the empty string.
llvm::StringRef getResultInfo(mlir::func::FuncOp main, unsigned index);

/// The values that main returns.
mlir::OperandRange getResults(mlir::func::FuncOp main);

/// Whether a result is argument `index` with slices of it overwritten, as a
/// cache of keys and values is; loops around the writes count.
bool isWrittenInSlices(mlir::func::FuncOp main, unsigned index);

} // namespace scalify::import

#endif // SCALIFY_LIB_IMPORT_ARGUMENTINFO_H
