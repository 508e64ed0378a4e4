//===- Explain.h - Reports and chains instead of IR -------------*- C++ -*-===//

#ifndef SCALIFY_TOOLS_SCALIFY_OPT_EXPLAIN_H
#define SCALIFY_TOOLS_SCALIFY_OPT_EXPLAIN_H

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

namespace scalify {

/// True if `--scalify-report` or `--scalify-why` was given.
bool wantsExplanation();

/// Writes the requested explanation of the module in `input` to `os`, after the
/// passes of the command line. Without passes, Import, Scaling and Precision
/// run first, unless the module has scales already.
llvm::LogicalResult explain(std::unique_ptr<llvm::MemoryBuffer> input,
                            mlir::DialectRegistry &registry,
                            const mlir::MlirOptMainConfig &config,
                            llvm::raw_ostream &os);

} // namespace scalify

#endif // SCALIFY_TOOLS_SCALIFY_OPT_EXPLAIN_H
