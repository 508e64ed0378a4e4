//===- Resources.h - Constants whose elements are resources -----*- C++ -*-===//

#ifndef SCALIFY_LIB_PIPELINE_RESOURCES_H
#define SCALIFY_LIB_PIPELINE_RESOURCES_H

#include "mlir/IR/BuiltinOps.h"

namespace scalify {

/// Makes constants of resources (`dense_resource<name>`, whose elements the
/// text has at its end, as of torch-mlir) dense, as passes expect them. Emits
/// an error if the text lacks a resource, or if it does not fit the type.
mlir::LogicalResult readResources(mlir::ModuleOp module);

} // namespace scalify

#endif // SCALIFY_LIB_PIPELINE_RESOURCES_H
