// Scratch memory of a thread, kept between calls.
#ifndef SCALIFY_RUNTIME_SUPPORT_THREADMEMORY_H
#define SCALIFY_RUNTIME_SUPPORT_THREADMEMORY_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace scalify::rt {

/// Returns memory of the calling thread, on a cache line. The next call may
/// return the same.
inline uint8_t *threadMemory(size_t bytes) {
  constexpr size_t line = 64;
  thread_local std::vector<uint8_t> memory;
  if (memory.size() < bytes + line)
    memory.resize(bytes + line);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<uint8_t *>((address + line - 1) / line * line);
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_THREADMEMORY_H
