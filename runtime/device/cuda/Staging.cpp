#include "device/cuda/Staging.h"
#include "support/Error.h"

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
// Like the arena's offsets: kernels and cuBLASLt read vectors.
constexpr uintptr_t alignment = 64;

/// True for memory of any GPU. The driver knows its own and pinned memory, and
/// reports the rest, which is the host's, as an invalid value.
bool isDeviceMemory(const Session &session, void *address) {
  MemoryType type = HostMemory;
  Status status = session.driver->cuPointerGetAttribute(
      &type, PointerMemoryType, onDevice(address));
  if (status == InvalidValue)
    return false;
  session.check(status, "cuPointerGetAttribute");
  return type == DeviceMemory;
}
} // namespace

void *CallerMemory::allocate(const Session &session, size_t bytes) {
  DeviceBlock memory =
      session.allocate(bytes, "memory" + std::to_string(made++));
  DevicePtr address = memory.get();
  blocks[address] = {std::max<size_t>(bytes, 1), std::move(memory)};
  return pointer(address);
}

void CallerMemory::release(void *memory) {
  if (memory && !blocks.erase(onDevice(memory)))
    badArgument("the executable allocated no memory at that address");
}

bool CallerMemory::contains(const void *address) const {
  auto after = blocks.upper_bound(onDevice(address));
  if (after == blocks.begin())
    return false;
  const auto &[start, block] = *std::prev(after);
  return onDevice(address) - start < block.bytes;
}

void *Staging::place(const Session &session, const CallerMemory &callers,
                     void *address, size_t bytes, const std::string &name,
                     Slot &slot) {
  slot.host = nullptr;
  if (!address)
    return nullptr; // an empty argument
  if (callers.contains(address) || isDeviceMemory(session, address)) {
    if (reinterpret_cast<uintptr_t>(address) % alignment)
      badArgument(name + " lies on the GPU, but not at a multiple of " +
                  std::to_string(alignment) + " bytes; copy it");
    session.driver->label(onDevice(address), bytes, name);
    return address;
  }
  if (!slot.memory)
    slot.memory = session.allocate(bytes, name);
  session.driver->label(slot.memory.get(), bytes, name);
  slot.host = address;
  return pointer(slot.memory.get());
}

void Staging::begin(const Session &session, const CallerMemory &callers,
                    StreamHandle stream, StepCall &call) {
  const Interface &interface = *call.interface;
  args.resize(interface.args.size());
  results.resize(interface.results.size());
  for (size_t i = 0; i < args.size(); ++i) {
    size_t bytes = size_t(interface.args[i].type.bytes);
    call.args[i] = place(session, callers, call.args[i], bytes,
                         "arg" + std::to_string(i), args[i]);
    if (args[i].host && bytes)
      session.check(session.driver->cuMemcpyHtoDAsync_v2(
                        onDevice(call.args[i]), args[i].host, bytes, stream),
                    "cuMemcpyHtoDAsync");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = interface.results[i];
    call.results[i] = result.aliasArg >= 0
                          ? call.args[size_t(result.aliasArg)]
                          : place(session, callers, call.results[i],
                                  size_t(result.type.bytes),
                                  "result" + std::to_string(i), results[i]);
  }
}

void Staging::finish(const Session &session, StreamHandle stream,
                     const StepCall &call) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = call.interface->results[i];
    void *host = result.aliasArg >= 0 ? args[size_t(result.aliasArg)].host
                                      : results[i].host;
    if (host && result.type.bytes)
      session.check(session.driver->cuMemcpyDtoHAsync_v2(
                        host, onDevice(call.results[i]),
                        size_t(result.type.bytes), stream),
                    "cuMemcpyDtoHAsync");
  }
}
