// Memory that arrays own: the host's, or a GPU's by the executable that gave
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

/// Raises the exception that fits the status.
void check(scalify_rt_status status);

/// Raises the exception of a status that is not OK, with this text.
[[noreturn]] void throwStatus(scalify_rt_status status, const char *text);

class Loaded;

/// Memory aligned to 64 bytes, freed with its last owner.
class Slot {
public:
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;
  virtual ~Slot() = default;
  void *data() const { return bytes; }
  /// Who copies it to the host; null where it lies there.
  virtual Loaded *device() const { return nullptr; }

  /// Set where another library has had it on a GPU: it may let go while work
  /// on a stream of its own still reads. Who writes here next waits first.
  bool isExported = false;

protected:
  explicit Slot(void *bytes) : bytes(bytes) {}

private:
  void *bytes;
};
using SlotRef = std::shared_ptr<Slot>;

SlotRef hostSlot(int64_t bytes);

/// What connects ranks; executables that use it keep it alive.
using CommRef = std::shared_ptr<scalify_rt_comm>;

/// Lets Ctrl-C through while the runtime works without the interpreter's lock.
int checkSignals(void *);

/// An executable of the runtime, which lives as long as memory that it gave.
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
  /// The CUstream of its steps as the number that DLPack knows it by.
  uintptr_t stream() const {
    return reinterpret_cast<uintptr_t>(scalify_rt_stream(handle));
  }
  /// Which GPU, of those that the process sees.
  int ordinal() const { return std::max(scalify_rt_device_index(handle), 0); }

  /// What steps write to without moving it. Of results the memory is kept when
  /// they are gone: it costs a GPU's driver more than most kernels take, and
  /// other addresses are another graph.
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
  void freeDoomed() noexcept;

  CommRef comm;
  scalify_rt_executable *handle = nullptr;
  std::mutex mutex;                  // of the two lists
  std::multimap<int64_t, Idle> idle; // results' memory, by size
  std::vector<void *> doomed;        // given back while a step ran
};

/// The bytes of a slot in the host's memory: itself, or a copy.
SlotRef onHost(const SlotRef &slot, int64_t size);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_MEMORY_H
