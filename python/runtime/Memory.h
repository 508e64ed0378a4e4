// Memory of arrays: the host's, or GPU memory of the executable that allocated
// it.
#ifndef SCALIFY_PYTHON_RUNTIME_MEMORY_H
#define SCALIFY_PYTHON_RUNTIME_MEMORY_H

#include "scalify/runtime.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nanobind/nanobind.h>
#include <string>
#include <vector>

namespace scalify::rt::py {

namespace nb = nanobind;

/// Raises the exception for a status that is not OK.
void check(scalify_rt_status status);

/// Raises the exception for a status, with this text.
[[noreturn]] void throwStatus(scalify_rt_status status, const char *text);

class Loaded;

/// Memory aligned to 64 bytes, freed with its last owner.
class Slot {
public:
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;
  virtual ~Slot() = default;
  void *data() const { return bytes; }
  /// Returns the executable that copies it to the host; null for host memory.
  virtual Loaded *device() const { return nullptr; }

  /// Set if another library received this GPU memory: it may release it while
  /// work on a stream of its own still reads. The next writer must wait first.
  bool isExported = false;

protected:
  explicit Slot(void *bytes) : bytes(bytes) {}

private:
  void *bytes;
};
using SlotRef = std::shared_ptr<Slot>;

SlotRef hostSlot(int64_t bytes);

/// Host memory of another library, which `owner` keeps alive.
SlotRef foreignSlot(void *bytes, nb::object owner);

/// The connection of ranks, kept alive by the executables that use it.
using CommRef = std::shared_ptr<scalify_rt_comm>;

/// Handles Ctrl-C while the runtime works without the interpreter's lock.
int checkSignals(void *);

/// A loaded executable, which lives as long as the memory it allocated.
class Loaded : public std::enable_shared_from_this<Loaded> {
public:
  /// `comm` may be null.
  Loaded(const nb::object &source, int threads, const std::string &device,
         CommRef comm);
  ~Loaded();
  Loaded(const Loaded &) = delete;
  Loaded &operator=(const Loaded &) = delete;

  scalify_rt_executable *get() const { return handle; }
  bool isOnDevice() const { return stream() != 0; }
  /// Returns the CUstream of its steps as DLPack's number.
  uintptr_t stream() const {
    return reinterpret_cast<uintptr_t>(scalify_rt_stream(handle));
  }
  /// Returns the GPU's index among those that the process sees.
  int ordinal() const { return std::max(scalify_rt_device_index(handle), 0); }

  /// Allocates memory that steps use in place. Memory of results is kept for
  /// reuse when they are gone: allocation costs a GPU's driver more than most
  /// kernels take, and new addresses need another graph.
  SlotRef take(int64_t size, bool isResult = false);
  void copyIn(const Slot &to, const void *from, int64_t size);
  void copyOut(void *to, const Slot &from, int64_t size);
  void copyWithin(const Slot &to, const void *from, int64_t size);

private:
  class DeviceSlot;
  struct Idle {
    void *memory;
    bool isExported;
  };
  void give(void *memory) noexcept;
  void keep(int64_t size, Idle entry) noexcept;
  void freePending() noexcept;

  CommRef comm;
  scalify_rt_executable *handle = nullptr;
  std::mutex mutex;                  // guards the two lists
  std::multimap<int64_t, Idle> idle; // free memory of results, by size
  std::vector<void *> pendingFrees;  // to be freed after the running step
};

/// Returns the bytes of a slot in host memory: the slot itself, or a copy.
SlotRef onHost(const SlotRef &slot, int64_t size);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_MEMORY_H
