//===- CUDATarget.h - Plans to executables for GPUs of NVIDIA ---*- C++ -*-===//

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
  /// NVIDIA's assembler; empty looks for it on the search path and where CUDA's
  /// toolkit is installed.
  std::string ptxas;
  /// Bytes of a section of their own that only readers of reports look at;
  /// empty for none.
  std::string report;
};

/// Turns a module that holds a `plan.program @step`, planned for a GPU, into
/// the bytes of an artefact: the kernels as PTX and, where ptxas is found, as a
/// cubin too. Errors are emitted as diagnostics.
mlir::FailureOr<std::string>
emitCUDAArtefactFromPlan(mlir::ModuleOp module,
                         const CUDATargetOptions &options);

} // namespace scalify

#endif // SCALIFY_TARGET_CUDA_CUDATARGET_H
