//===- CUDATarget.h - Executables for NVIDIA GPUs ---------------*- C++ -*-===//

#ifndef SCALIFY_TARGET_CUDA_CUDATARGET_H
#define SCALIFY_TARGET_CUDA_CUDATARGET_H

#include "scalify/Dialect/Scalify/Targets.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace scalify {

struct CUDATargetOptions {
  std::string chip = kHopper.str();
  /// For the manifest: the recipe that the module was compiled with.
  std::string recipe = "none";
  /// NVIDIA's assembler; if empty, it is looked up on the search path and in
  /// the CUDA toolkit; if "none", kernels stay PTX.
  std::string ptxas;
  /// Bytes of a separate section that only readers of reports use; empty for
  /// none.
  std::string report;
};

/// Compiles a module with a `plan.program @step`, planned for a GPU, to the
/// bytes of an artefact: the kernels as PTX and, if ptxas is found, also as a
/// cubin. Errors are emitted as diagnostics.
mlir::FailureOr<std::string>
emitCUDAArtefactFromPlan(mlir::ModuleOp module,
                         const CUDATargetOptions &options);

} // namespace scalify

#endif // SCALIFY_TARGET_CUDA_CUDATARGET_H
