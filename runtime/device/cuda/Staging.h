// Arguments and results on the GPU: used in place if they are there already,
// else in staging memory, which is filled before a step and read after it.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H

#include "device/Device.h"
#include "device/cuda/Session.h"

#include <map>

namespace scalify::rt::cuda {

/// Memory allocated for callers, by address.
class CallerMemory {
public:
  void *allocate(const Session &session, size_t bytes);
  void release(void *memory);
  bool contains(const void *address) const;

private:
  struct Block {
    size_t bytes;
    DeviceBlock memory;
  };
  std::map<DevicePtr, Block> blocks;
  int made = 0;
};

/// The addresses of one function's arguments and results.
class Staging {
public:
  /// Replaces the host's addresses in `call` by the GPU's, and issues the
  /// copies of arguments.
  void begin(const Session &session, const CallerMemory &callers,
             StreamHandle stream, StepCall &call);
  /// Issues the copies of the step's results.
  void finish(const Session &session, StreamHandle stream,
              const StepCall &call);

private:
  struct Slot {
    DeviceBlock memory;   // allocated on first use, and kept
    void *host = nullptr; // of the running step; null if used in place
  };
  static void *place(const Session &session, const CallerMemory &callers,
                     void *address, size_t bytes, const std::string &name,
                     Slot &slot);

  std::vector<Slot> args, results;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H
