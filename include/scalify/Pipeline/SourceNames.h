//===- SourceNames.h - The names of values in the text ----------*- C++ -*-===//
//
// MLIR forgets the names of values when it has read them. Where somebody asks
// by name, the reader keeps them in the locations, which passes carry along.
//
//===----------------------------------------------------------------------===//

#ifndef SCALIFY_PIPELINE_SOURCENAMES_H
#define SCALIFY_PIPELINE_SOURCENAMES_H

#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/SourceMgr.h"

#include <string>

namespace scalify {

/// Parses the first buffer of `sources` and keeps the name of each value.
mlir::OwningOpRef<mlir::ModuleOp>
parseWithSourceNames(llvm::SourceMgr &sources, mlir::MLIRContext *context);

/// The name that the value has in the text ("%412", "%3#1"); in a function
/// other than main with the function ("@relu:%3"). Empty where it has none.
std::string getSourceName(mlir::Location location, unsigned result = 0);

/// Gives every location back the form that it was read in.
void eraseSourceNames(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_PIPELINE_SOURCENAMES_H
