//===- Strings.h - Texts of a program ---------------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_STRINGS_H
#define SCALIFY_LIB_PIPELINE_STRINGS_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Checks that names, locations and other strings are UTF-8, which reports and
/// manifests need: escapes may write any bytes. The data of custom calls is no
/// text.
llvm::LogicalResult checkStrings(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_STRINGS_H
