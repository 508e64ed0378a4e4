//===- CPUTarget.h - Executables for the CPU --------------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_CPU_CPUTARGET_H
#define SCALIFY_TARGET_CPU_CPUTARGET_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace scalify {

struct CPUTargetOptions {
  /// Never "native": the same input gives the same bytes on every machine.
  std::string mcpu = "x86-64-v3";
  /// For the manifest: the recipe that the module was compiled with.
  std::string recipe = "none";
  /// Linker for the kernels; empty looks for ld.lld-22, then LLVM's own.
  std::string linker;
  /// Bytes of a separate section that only readers of reports use; empty for
  /// none.
  std::string report;
};

/// Compiles a module with the `plan.program` @step to the bytes of an artefact.
/// Errors are emitted as diagnostics.
mlir::FailureOr<std::string> emitCPUArtefact(mlir::ModuleOp module,
                                             const CPUTargetOptions &options);

/// Compiles a module of kernel functions to an ELF shared object without
/// dependencies. Consumes the functions.
mlir::FailureOr<std::string> compileKernels(mlir::ModuleOp kernels,
                                            const CPUTargetOptions &options);

} // namespace scalify

#endif // SCALIFY_TARGET_CPU_CPUTARGET_H
