#include "device/HostDevice.h"
#include "loader/Image.h"
#include "support/ArenaPool.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace scalify::rt;

HostDevice::~HostDevice() {
  ArenaPool::get().drop(std::move(arenaMemory));
  ArenaPool::get().leave(arenaBytes);
}

void HostDevice::load(Program &program, const Image &image) {
  const auto bytes = static_cast<size_t>(program.maxArenaBytes());
  ArenaPool::get().join(bytes);
  arenaBytes = bytes;
  // No copy: the image lives as long as the device.
  constantBytes = image.data() + program.constants.offset;
}

bool HostDevice::begin(StepCall &call) {
  if (!arenaMemory.data())
    arenaMemory = ArenaPool::get().take(arenaBytes);
  return Device::begin(call);
}

void HostDevice::finish(StepCall &call, uint64_t *counts) {
  ArenaPool::get().giveBack(std::exchange(arenaMemory, PageMemory()),
                            arenaBytes);
}

void HostDevice::setBytes(void *dst, size_t bytes, uint8_t byte) {
  std::memset(dst, byte, bytes);
}

void *HostDevice::allocate(size_t bytes) {
  PageMemory memory(static_cast<int64_t>(std::max<size_t>(bytes, 1)),
                    "an argument");
  void *address = memory.data();
  allocated[address] = std::move(memory);
  return address;
}

void HostDevice::release(void *memory) {
  if (memory && !allocated.erase(memory))
    badArgument("the executable allocated no memory at that address");
}

void HostDevice::copyIn(void *dst, const void *src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}

void HostDevice::copyOut(void *dst, const void *src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}

void HostDevice::copyWithin(void *dst, const void *src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}
