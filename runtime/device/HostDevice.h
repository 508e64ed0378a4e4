// Shared base of devices whose memory is the host's.
#ifndef SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H
#define SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H

#include "device/Device.h"
#include "support/PageMemory.h"

#include <map>

namespace scalify::rt {

class HostDevice : public Device {
public:
  void load(Program &program, const Image &image) override;
  void *arena() const override { return arenaMemory.data(); }
  const void *constants() const override { return constantBytes; }

  void *allocate(size_t bytes) override;
  void release(void *memory) override;
  void copyIn(void *dst, const void *src, size_t bytes) override;
  void copyOut(void *dst, const void *src, size_t bytes) override;
  void copyWithin(void *dst, const void *src, size_t bytes) override;

protected:
  void setBytes(void *dst, size_t bytes, uint8_t byte) override;

private:
  PageMemory arenaMemory;
  const uint8_t *constantBytes = nullptr;
  std::map<void *, PageMemory> allocated;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_HOSTDEVICE_H
