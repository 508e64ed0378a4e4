// Attentions of a step by cuDNN, or by its recording.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H

#include "device/cuda/Types.h"
#include "loader/AttentionShape.h"

#include <functional>
#include <memory>
#include <string>

namespace scalify::rt::cuda {

/// One attention, planned at load and issued in each step.
class AttentionPlan {
public:
  virtual ~AttentionPlan() = default;
  virtual size_t workspaceBytes() const = 0;
  /// `buffers` are the command's. Returns why it failed, or "".
  virtual std::string issue(void *const *buffers, void *workspace,
                            StreamHandle stream) = 0;
};

class AttentionLibrary {
public:
  virtual ~AttentionLibrary() = default;
  /// Null, with `why` set, for what the library does not compute.
  virtual std::unique_ptr<AttentionPlan> plan(const AttentionShape &shape,
                                              std::string &why) = 0;
};

/// cuDNN of this machine, for the current context. Throws Error that says what
/// is missing, and the way out.
std::unique_ptr<AttentionLibrary> loadCudnn();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H
