//===- CheckOptions.h - Check options and their combinations ----*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H
#define SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H

#include "scalify/Pipeline/Compiler.h"

#include "mlir/Support/LLVM.h"

namespace scalify {

/// Returns the target that a name denotes; a GPU has several names.
llvm::StringRef resolveTarget(llvm::StringRef name);

/// Checks options before compilation. An error at `location` names the first
/// option that is unknown, out of range, or incompatible with another one, and
/// the way out.
mlir::LogicalResult checkOptions(const CompileOptions &options,
                                 mlir::Location location);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_CHECKOPTIONS_H
