//===- CheckOptions.h - Options that do not go together --------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H
#define SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/Support/LLVM.h"

namespace scalify {

/// The target that a name stands for: a GPU has several.
llvm::StringRef resolveTarget(llvm::StringRef name);

/// Looks at options before anything is compiled: an error at `location` names
/// the first that is unknown, out of range, or goes with no other one that is
/// given, and what to do about it.
mlir::LogicalResult checkOptions(const CompileOptions &options,
                                 mlir::Location location);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H
