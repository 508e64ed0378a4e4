//===- ArgumentRanges.h - Ranges as an input of compilation -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_ARGUMENTRANGES_H
#define SCALIFY_LIB_PIPELINE_ARGUMENTRANGES_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/JSON.h"

namespace scalify {

/// Reads an object of argument names, or a list in main's order, whose entries
/// are null or `{"max": .., "min": .., "norms": [..], "frobenius": ..}`.
llvm::Expected<std::vector<ArgumentRange>>
readArgumentRanges(const llvm::json::Value &value);

/// Sets `scalify.range` on main's arguments. An argument that main does not
/// have is an error.
mlir::LogicalResult applyArgumentRanges(mlir::ModuleOp module,
                                        llvm::ArrayRef<ArgumentRange> ranges);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_ARGUMENTRANGES_H
