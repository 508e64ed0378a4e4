//===- CUDATarget.h - NVIDIA's GPUs -----------------------------*- C++ -*-===//

#ifndef SCALIFY_LIB_TARGET_CUDA_CUDATARGET_H
#define SCALIFY_LIB_TARGET_CUDA_CUDATARGET_H

#include "scalify/Dialect/Scalify/Targets.h"

namespace scalify {

/// A GPU with cuBLASLt and NCCL. An artefact has its kernels as PTX and, if
/// ptxas is found, also as a cubin.
class CUDATarget : public Target {
public:
  using Target::Target;
  void buildLowering(mlir::OpPassManager &kernels) const override;
  mlir::FailureOr<std::string>
  emitArtefact(mlir::ModuleOp module,
               const ArtefactOptions &options) const override;
};

} // namespace scalify

#endif // SCALIFY_LIB_TARGET_CUDA_CUDATARGET_H
