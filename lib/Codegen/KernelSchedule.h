//===- KernelSchedule.h - The loop nest of a kernel -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H
#define SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H

#include "KernelEmitter.h"

#include "scalify/Dialect/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::codegen {

/// How the outermost loop may be cut into tasks.
struct KernelRows {
  /// On a GPU: how many blocks have something to do.
  int64_t rows = 1;
  int64_t grain = 1;
  /// Of a block on a GPU.
  int64_t threads = 1;
};

/// Fills `function` (flat memrefs of the reads and writes, lo, hi, counters)
/// with the loops that compute rows [lo, hi) of `kernel`; on a GPU, with what
/// one thread of the grid does of all rows.
mlir::FailureOr<KernelRows>
emitKernel(plan::KernelOp kernel, mlir::func::FuncOp function, Machine machine);

/// Type of the function of a kernel, before it is made a C function.
mlir::FunctionType kernelFunctionType(plan::KernelOp kernel);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H
