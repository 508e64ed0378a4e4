//===- SourceNames.h - The names of values in the input text ----*- C++ -*-===//
//
// MLIR's parser drops the names of values. When a query by name is possible,
// this parser keeps them in the locations, which passes preserve.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_SOURCENAMES_H
#define SCALIFY_PIPELINE_SOURCENAMES_H

#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/SourceMgr.h"

#include <string>

namespace scalify {

/// Parses the first buffer of `sources` and keeps the names of all values.
mlir::OwningOpRef<mlir::ModuleOp>
parseWithSourceNames(llvm::SourceMgr &sources, mlir::MLIRContext *context);

/// Returns the value's name in the text ("%412", "%3#1"). In a function other
/// than main the function's name precedes it ("@relu:%3"). Empty if the value
/// has no name.
std::string getSourceName(mlir::Location location, unsigned result = 0);

/// Restores every location to its form before `parseWithSourceNames`.
void eraseSourceNames(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_PIPELINE_SOURCENAMES_H
