//===- InitAll.h - Registers every Scalify dialect and pass -----*- C++ -*-===//

#ifndef SCALIFY_PIPELINE_INITALL_H
#define SCALIFY_PIPELINE_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace scalify {

/// Registers Scalify's dialects and the external models of its interfaces, but
/// nothing of upstream MLIR.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers every pass and pipeline under the names of their td entries.
void registerAllPasses();

} // namespace scalify

#endif // SCALIFY_PIPELINE_INITALL_H
