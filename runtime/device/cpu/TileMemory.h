// Memory of the threads that run tiles.
#ifndef SCALIFY_RUNTIME_DEVICE_CPU_TILEMEMORY_H
#define SCALIFY_RUNTIME_DEVICE_CPU_TILEMEMORY_H

#include "support/PageMemory.h"

#include <atomic>
#include <utility>
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
  /// Changes nothing if it throws, since threads use the slots unchecked.
  void resize(int threads, size_t bytes, size_t numBuffers) {
    constexpr size_t page = 4096;
    const size_t apart = (bytes + page - 1) / page * page;
    PageMemory made =
        apart ? PageMemory(int64_t(apart) * threads, "tiles") : PageMemory();
    std::vector<TileSlot> places(static_cast<size_t>(threads));
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = {made.data() + i * apart, std::vector<void *>(numBuffers)};
    memory = std::move(made);
    slots = std::move(places);
    stride = apart;
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
