//===- KernelSchedule.h - The loop nest of a kernel -------------*- C++ -*-===//

#ifndef SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H
#define SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H

#include "KernelEmitter.h"

#include "scalify/Dialect/Plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify::codegen {

/// The split of the outermost loop into tasks.
struct KernelRows {
  /// On a GPU: the number of blocks that have work.
  int64_t rows = 1;
  int64_t grain = 1;
  /// On a GPU: the threads of a block.
  int64_t threads = 1;
};

/// Fills `function` (flat memrefs of the reads and writes, lo, hi, counters)
/// with the loops that compute rows [lo, hi) of `kernel`; on a GPU, with the
/// work of one thread of the grid.
mlir::FailureOr<KernelRows>
emitKernel(plan::KernelOp kernel, mlir::func::FuncOp function, Machine machine);

/// Returns the type of a kernel's function, before it gets a C entry point.
mlir::FunctionType kernelFunctionType(plan::KernelOp kernel);

} // namespace scalify::codegen

#endif // SCALIFY_LIB_CODEGEN_KERNELSCHEDULE_H
