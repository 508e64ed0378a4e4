//===- ToolRun.h - Linkers and assemblers, run on bytes ---------*- C++ -*-===//

#ifndef SCALIFY_TARGET_ARTEFACT_TOOLRUN_H
#define SCALIFY_TARGET_ARTEFACT_TOOLRUN_H

#include "mlir/IR/Location.h"

#include <string>

namespace scalify {

/// The path of the first of `names` that is found, on the search path before
/// the folders; "" if none is.
std::string findTool(llvm::ArrayRef<llvm::StringRef> names,
                     llvm::ArrayRef<llvm::StringRef> folders);

/// Runs a program on a file of the bytes and returns those of the file that it
/// writes. Of the arguments "@in" and "@out" stand for the two files. A failure
/// is an error at the location, with what the program said.
mlir::FailureOr<std::string> runTool(mlir::Location loc, llvm::StringRef tool,
                                     llvm::ArrayRef<llvm::StringRef> arguments,
                                     llvm::StringRef input);

} // namespace scalify

#endif // SCALIFY_TARGET_ARTEFACT_TOOLRUN_H
