//===- TargetOps.h - Types and ops that the CPU target supports -*- C++ -*-===//

#ifndef SCALIFY_LIB_FUSION_TARGETOPS_H
#define SCALIFY_LIB_FUSION_TARGETOPS_H

#include "mlir/IR/Operation.h"

namespace scalify {

/// True if a buffer of a plan can hold the type: a tensor of static shape whose
/// elements kernels compute.
bool isInMemory(mlir::Type type);

/// True if kernels compute with the floating-point type.
bool isComputed(mlir::Type element);

/// True if the op is a custom call of one of JAX's callbacks.
bool isCallback(mlir::Operation *op);

/// True if the op holds collectives, also in loops that are outlined.
bool isExchanging(mlir::Operation *op);

/// True if the op holds calls with side effects.
bool hasEffects(mlir::Operation *op);

/// True if the CPU target lowers the op, including loops and ops that are
/// expanded on the way to the plan.
bool isInCPUTarget(mlir::Operation *op);

} // namespace scalify

#endif // SCALIFY_LIB_FUSION_TARGETOPS_H
