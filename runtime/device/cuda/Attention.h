// The interface of attentions by cuDNN, or by its recording.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H

#include "device/cuda/Types.h"
#include "loader/AttentionShape.h"

#include <functional>
#include <memory>
#include <string>

namespace scalify::rt::cuda {

/// An attention, planned at load and issued in each step.
class AttentionPlan {
public:
  virtual ~AttentionPlan() = default;
  virtual size_t workspaceBytes() const = 0;
  /// `buffers` are the command's. Returns an error text, or "".
  virtual std::string issue(void *const *buffers, void *workspace,
                            StreamHandle stream) = 0;
};

class AttentionLibrary {
public:
  virtual ~AttentionLibrary() = default;
  /// Returns null and sets `why` if the library does not support the shape.
  virtual std::unique_ptr<AttentionPlan> plan(const AttentionShape &shape,
                                              std::string &why) = 0;
};

/// Opens this machine's cuDNN for the current context. Throws an Error that
/// names the missing part and the way out.
std::unique_ptr<AttentionLibrary> loadCudnn();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTION_H
