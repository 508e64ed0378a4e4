// The memory that the ranks of one machine share: a slot for each rank, and a
// ring buffer for each ordered pair. It is initially zero.
#ifndef SCALIFY_RUNTIME_COMM_LOCAL_SEGMENT_H
#define SCALIFY_RUNTIME_COMM_LOCAL_SEGMENT_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace scalify::rt::local {

enum class State : uint32_t { Open, Closed };

struct alignas(64) Slot {
  /// A futex. Peers increment it after moving data for this rank, then wake the
  /// rank if it sleeps.
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleeping;
  std::atomic<State> state;
  /// One more than the rank that this one waits for, 0 for none.
  std::atomic<uint32_t> waitsFor;
  int32_t process;
  /// Why this rank stopped; written before Segment::stopped names the rank.
  char reason[1984];
};

/// Bytes written and read so far, by one writer and one reader.
struct alignas(64) Ring {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
};

/// Futexes and rings are shared by processes: their atomics must not use locks.
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class Segment {
public:
  Segment() = default;
  Segment(uint8_t *memory, int32_t size)
      : memory(memory), size(size), capacity(ringBytes(size)) {}

  /// Returns the size of a ring, a power of two. The total of all rings is
  /// bounded.
  static uint64_t ringBytes(int32_t size) {
    uint64_t bytes = uint64_t(256) << 10;
    while (bytes > 4096 &&
           bytes * uint64_t(size) * uint64_t(size) > (uint64_t(64) << 20))
      bytes /= 2;
    return bytes;
  }
  static size_t bytes(int32_t size) {
    size_t ranks = size_t(size);
    return 64 + ranks * sizeof(Slot) +
           ranks * ranks * (sizeof(Ring) + ringBytes(size));
  }

  /// One more than the rank that stopped first, 0 for none.
  std::atomic<uint32_t> &stopped() const {
    return *reinterpret_cast<std::atomic<uint32_t> *>(memory);
  }
  Slot &slot(int32_t rank) const {
    return reinterpret_cast<Slot *>(memory + 64)[rank];
  }
  Ring &ring(int32_t from, int32_t to) const {
    return reinterpret_cast<Ring *>(
        memory + 64 + size_t(size) * sizeof(Slot))[pair(from, to)];
  }
  uint8_t *data(int32_t from, int32_t to) const {
    size_t ranks = size_t(size);
    return memory + 64 + ranks * sizeof(Slot) + ranks * ranks * sizeof(Ring) +
           pair(from, to) * capacity;
  }
  uint64_t ringBytes() const { return capacity; }

private:
  size_t pair(int32_t from, int32_t to) const {
    return size_t(from) * size_t(size) + size_t(to);
  }
  uint8_t *memory = nullptr;
  int32_t size = 0;
  uint64_t capacity = 0;
};

} // namespace scalify::rt::local

#endif // SCALIFY_RUNTIME_COMM_LOCAL_SEGMENT_H
