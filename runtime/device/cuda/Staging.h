// Arguments and results on the GPU: in place where they lie there already,
// else in memory of ours that is filled before a step and read after it.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H

#include "device/Device.h"
#include "device/cuda/Session.h"

#include <map>

namespace scalify::rt::cuda {

/// Memory that callers asked for, by its address.
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
  /// Puts addresses of the GPU in the place of the host's in `call`, and
  /// issues the copies of arguments.
  void begin(const Session &session, const CallerMemory &callers,
             StreamHandle stream, StepCall &call);
  /// Issues the copies of what the step wrote.
  void finish(const Session &session, StreamHandle stream,
              const StepCall &call);

private:
  struct Slot {
    DeviceBlock memory;   // made when it is first needed, and kept
    void *host = nullptr; // of the running step; null where used in place
  };
  static void *place(const Session &session, const CallerMemory &callers,
                     void *address, size_t bytes, const std::string &name,
                     Slot &slot);

  std::vector<Slot> args, results;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_STAGING_H
