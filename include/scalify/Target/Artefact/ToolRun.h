//===- ToolRun.h - Linkers and assemblers on bytes in memory ----*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_TOOLRUN_H
#define SCALIFY_TARGET_ARTEFACT_TOOLRUN_H

#include "mlir/IR/Location.h"

#include <string>

namespace scalify {

/// Returns the path of the first of `names` that is found: on the search path,
/// among an installed package's programs, then in the folders; "" if none is.
std::string findTool(llvm::ArrayRef<llvm::StringRef> names,
                     llvm::ArrayRef<llvm::StringRef> folders);

/// Runs a program on a file with the bytes of `input`, and returns the bytes of
/// its output file. The arguments "@in" and "@out" are replaced by the two
/// paths. A failure is an error at the location, with the program's output.
mlir::FailureOr<std::string> runTool(mlir::Location loc, llvm::StringRef tool,
                                     llvm::ArrayRef<llvm::StringRef> arguments,
                                     llvm::StringRef input);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_TOOLRUN_H
