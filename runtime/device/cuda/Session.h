// The context of one GPU, errors that name their call, and owners of the
// driver's objects.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_SESSION_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_SESSION_H

#include "device/cuda/Driver.h"
#include "loader/Program.h"

#include <utility>

namespace scalify::rt::cuda {

/// Owns an object of the driver; `release` frees it.
template <typename Handle> class Owned {
public:
  using Release = std::function<void(Handle)>;
  Owned() = default;
  Owned(Handle handle, Release release)
      : handle(handle), release(std::move(release)) {}
  Owned(Owned &&other) noexcept
      : handle(std::exchange(other.handle, Handle())),
        release(std::move(other.release)) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle, other.handle);
    std::swap(release, other.release);
    return *this;
  }
  ~Owned() {
    if (handle)
      release(handle);
  }
  Handle get() const { return handle; }
  explicit operator bool() const { return handle != Handle(); }

private:
  Handle handle = Handle();
  Release release;
};

using DeviceBlock = Owned<DevicePtr>;
using HostBlock = Owned<void *>;

/// The primary context of one GPU, which the process's libraries share.
class Session {
public:
  /// Throws an Error if the GPU cannot run the program.
  Session(std::shared_ptr<Driver> driver, int ordinal, const Program &program);

  /// Makes the context current on the calling thread, as the driver's calls
  /// need.
  void makeCurrent() const;

  /// Throws an Error if a call failed, with the call's name, the driver's text
  /// and the command.
  void check(Status status, const char *call, const char *advice = "") const;
  void check(BlasStatus status, const char *call,
             const std::string &detail = "") const;

  /// Throws the error of a call that reports its reason itself.
  [[noreturn]] void refuse(const char *call, const std::string &reason) const;

  DeviceBlock allocate(size_t bytes, const std::string &name) const;
  HostBlock allocateHost(size_t bytes) const;
  Owned<StreamHandle> makeStream() const;
  Owned<EventHandle> makeEvent(EventFlags flags = TimedEvent) const;

  const std::string &deviceName() const { return name; }

  std::shared_ptr<Driver> driver;
  /// The command being issued, for errors; null outside of commands.
  const Command *command = nullptr;

private:
  std::string where() const;

  int device = 0;
  std::string name;
  Owned<ContextHandle> context;
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_SESSION_H
