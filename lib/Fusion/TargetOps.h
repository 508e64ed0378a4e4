//===- TargetOps.h - What the CPU target has no lowering for ----*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_TARGETOPS_H
#define SCALIFY_LIB_FUSION_TARGETOPS_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// Whether buffers of a plan can have the type: tensors of static shape whose
/// elements kernels compute.
bool isInMemory(mlir::Type type);

/// Whether kernels compute with the type, which is no integer.
bool isComputed(mlir::Type element);

/// Whether a custom call is one of JAX's callbacks.
bool isCallback(mlir::Operation *op);

/// Whether the stages up to the plan have a form for the op, loops and what is
/// expanded on the way included.
bool isInCPUTarget(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_TARGETOPS_H
