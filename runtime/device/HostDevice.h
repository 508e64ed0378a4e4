// Shared base of devices whose memory is the host's.
#ifndef SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H
#define SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H

#include "device/Device.h"
#include "support/PageMemory.h"

#include <map>

namespace scalify::rt {

class HostDevice : public Device {
public:
  ~HostDevice() override;
  void load(Program &program, const Image &image) override;
  /// Null outside of runs.
  void *arena() const override { return arenaMemory.data(); }
  const void *constants() const override { return constantBytes; }

  bool begin(StepCall &call) override;
  void finish(StepCall &call, uint64_t *counts) override;

  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void copyIn(void *dst, const void *src, size_t bytes) override;
  void copyOut(void *dst, const void *src, size_t bytes) override;
  void copyWithin(void *dst, const void *src, size_t bytes) override;

protected:
  void setBytes(void *dst, size_t bytes, uint8_t byte) override;

private:
  /// That of a run. After an error it stays here, since messages of other ranks
  /// may still arrive in it.
  PageMemory arenaMemory;
  size_t arenaBytes = 0;
  const uint8_t *constantBytes = nullptr;
  std::map<void *, PageMemory> allocated;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H
