// Memory of the threads that run tiles.
#ifndef SCALIFY_RUNTIME_DEVICE_CPU_TILEMEMORY_H
#define SCALIFY_RUNTIME_DEVICE_CPU_TILEMEMORY_H

#include "support/PageMemory.h"

#include <atomic>
#include <vector>

namespace scalify::rt {

/// The memory of a thread for one tile at a time.
struct TileSlot {
  uint8_t *memory = nullptr;
  std::vector<void *> buffers; // of the running command
};

/// One slot for each thread of a pool. The system gives memory to the threads
/// that touch theirs.
class TileMemory {
public:
  void resize(int threads, size_t bytes, size_t numBuffers) {
    constexpr size_t page = 4096;
    stride = (bytes + page - 1) / page * page;
    memory =
        stride ? PageMemory(int64_t(stride) * threads, "tiles") : PageMemory();
    slots.assign(size_t(threads), {});
    for (size_t i = 0; i < slots.size(); ++i)
      slots[i] = {memory.data() + i * stride, std::vector<void *>(numBuffers)};
  }

  /// Called before the tasks of a group.
  void begin() {
    static std::atomic<uint64_t> last = 0;
    run = ++last;
    next = 0;
  }

  /// Returns the calling thread's slot in this run. The pool has as many
  /// threads as there are slots.
  TileSlot &own() {
    thread_local uint64_t ownRun = 0;
    thread_local size_t slot = 0;
    if (ownRun != run) {
      ownRun = run;
      slot = next++;
    }
    return slots[slot];
  }

  uint8_t *data() const { return memory.data(); }
  size_t size() const { return stride * slots.size(); }

private:
  PageMemory memory;
  size_t stride = 0;
  std::vector<TileSlot> slots;
  uint64_t run = 0;
  std::atomic<size_t> next{0};
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_CPU_TILEMEMORY_H
