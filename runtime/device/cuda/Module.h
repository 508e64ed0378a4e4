// An artefact's kernels on the GPU: the cubin if it fits, else the PTX,
// compiled by the driver.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_MODULE_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_MODULE_H

#include "device/cuda/Session.h"
#include "loader/Image.h"

namespace scalify::rt::cuda {

class Module {
public:
  Module() = default;
  /// Loads the program's kernels; loads nothing if it has none.
  Module(const Session &session, const Program &program, const Image &image);
  FunctionHandle function(const Command &command) const;

private:
  void loadPtx(const Session &session, const std::string &text);

  Owned<ModuleHandle> module;
  std::vector<FunctionHandle> functions; // by command; null for others
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_MODULE_H
