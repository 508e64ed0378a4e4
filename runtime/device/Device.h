// What a device can do. The executor walks a function's commands, resolves
// their buffers and calls these; a device knows nothing of manifests.
#ifndef SCALIFY_RUNTIME_DEVICE_DEVICE_H
#define SCALIFY_RUNTIME_DEVICE_DEVICE_H

#include "loader/Program.h"

#include <memory>
#include <string>

namespace scalify::rt {

class Device {
public:
  virtual ~Device() = default;

  /// True if kernels must be loaded from the artefact.
  virtual bool needsKernels() const = 0;

  /// Called once per command when an executable is loaded, so that running
  /// the command need not allocate.
  virtual void prepare(const Command &command) = 0;

  /// Runs rows [0, command.rows). Adds the tasks' counts to `counters`,
  /// `counterWords` for each of command.counters, in that order.
  virtual void kernel(const Command &command, void *const *buffers,
                      uint64_t *counters) = 0;
  virtual void gemm(const Command &command, const float *a, const float *b,
                    float *c) = 0;
  virtual void copy(const Command &command, const void *src, void *dst) = 0;
  virtual void fill(const Command &command, void *dst) = 0;

  virtual int threads() const { return 1; }
  virtual void setThreads(int threads) {}
  /// The record of the null device.
  virtual std::string trace() const { return ""; }
};

/// `threads` of 0 means one per available core.
std::unique_ptr<Device> makeCpuDevice(int threads);
std::unique_ptr<Device> makeNullDevice();

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_DEVICE_H
