#include "Memory.h"

#include <cstdlib>
#include <nanobind/stl/string.h>
#include <new>
#include <stdexcept>

using namespace scalify::rt::py;

void scalify::rt::py::check(scalify_rt_status status) {
  if (status != SCALIFY_RT_OK)
    throwStatus(status, scalify_rt_last_error());
}

void scalify::rt::py::throwStatus(scalify_rt_status status, const char *text) {
  switch (status) {
  case SCALIFY_RT_BAD_ARGUMENT:
    throw nb::value_error(text);
  case SCALIFY_RT_IO:
    PyErr_SetString(PyExc_OSError, text);
    throw nb::python_error();
  case SCALIFY_RT_INTERRUPTED:
    throw nb::python_error(); // the signal handler's own exception
  default:
    throw std::runtime_error(text);
  }
}

namespace {
class HostSlot : public Slot {
public:
  explicit HostSlot(void *bytes) : Slot(bytes) {}
  ~HostSlot() override { std::free(data()); }
};

class ForeignSlot : public Slot {
public:
  ForeignSlot(void *bytes, nb::object owner)
      : Slot(bytes), owner(std::move(owner)) {}

private:
  nb::object owner;
};

scalify_rt_device deviceOf(const std::string &name) {
  if (name == "cpu")
    return SCALIFY_RT_DEVICE_CPU;
  if (name == "cuda")
    return SCALIFY_RT_DEVICE_CUDA;
  if (name == "null")
    return SCALIFY_RT_DEVICE_NULL;
  throw nb::value_error(
      ("device must be 'cpu', 'cuda' or 'null', not '" + name + "'").c_str());
}
} // namespace

int scalify::rt::py::checkSignals(void *) {
  nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals();
}

SlotRef scalify::rt::py::hostSlot(int64_t size) {
  void *bytes = std::aligned_alloc(64, (size_t(size) + 64) / 64 * 64);
  if (!bytes)
    throw std::bad_alloc();
  return std::make_shared<HostSlot>(bytes);
}

SlotRef scalify::rt::py::foreignSlot(void *bytes, nb::object owner) {
  return std::make_shared<ForeignSlot>(bytes, std::move(owner));
}

class Loaded::DeviceSlot : public Slot {
public:
  DeviceSlot(std::shared_ptr<Loaded> owner, void *bytes, int64_t size,
             bool isResult)
      : Slot(bytes), owner(std::move(owner)), size(size), isResult(isResult) {}
  ~DeviceSlot() override {
    if (isResult)
      owner->keep(size, {data(), isExported});
    else
      owner->give(data());
  }
  Loaded *device() const override { return owner.get(); }

private:
  std::shared_ptr<Loaded> owner;
  int64_t size;
  bool isResult;
};

Loaded::Loaded(const nb::object &source, int threads, const std::string &device,
               CommRef ranks)
    : comm(std::move(ranks)) {
  scalify_rt_options options = {};
  options.threads = threads;
  options.device = deviceOf(device);
  options.comm = comm.get();
  // Without the interpreter's lock: ranks compare what they load, and may be
  // threads of this process.
  auto unlocked = [](auto load) {
    nb::gil_scoped_release unlock;
    return load();
  };
  scalify_rt_status status;
  if (nb::isinstance<nb::bytes>(source)) {
    nb::bytes data = nb::cast<nb::bytes>(source);
    const char *bytes = data.c_str();
    status = unlocked([&, size = data.size()] {
      return scalify_rt_load_memory(bytes, size, &options, &handle);
    });
  } else {
    nb::object fspath = nb::module_::import_("os").attr("fspath")(source);
    auto path = nb::cast<std::string>(fspath);
    status = unlocked(
        [&] { return scalify_rt_load_file(path.c_str(), &options, &handle); });
  }
  check(status);
  check(scalify_rt_set_poll(handle, checkSignals, nullptr));
}

Loaded::~Loaded() { scalify_rt_free(handle); }

SlotRef Loaded::take(int64_t size, bool isResult) {
  if (!isOnDevice())
    return hostSlot(size);
  Idle found = {nullptr, false};
  {
    std::lock_guard<std::mutex> lock(mutex);
    freePending();
    auto kept = isResult ? idle.find(size) : idle.end();
    if (kept != idle.end()) {
      found = kept->second;
      idle.erase(kept);
    }
  }
  if (!found.memory)
    check(scalify_rt_memory_alloc(handle, uint64_t(size), &found.memory));
  auto slot = std::make_shared<DeviceSlot>(shared_from_this(), found.memory,
                                           size, isResult);
  slot->isExported = found.isExported;
  return slot;
}

void Loaded::keep(int64_t size, Idle entry) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  idle.emplace(size, entry);
}

/// Frees the memory, later if a step is running on another thread.
void Loaded::give(void *memory) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  pendingFrees.push_back(memory);
  freePending();
}

void Loaded::freePending() noexcept {
  while (!pendingFrees.empty() &&
         scalify_rt_memory_free(handle, pendingFrees.back()) == SCALIFY_RT_OK)
    pendingFrees.pop_back();
}

void Loaded::copyIn(const Slot &to, const void *from, int64_t size) {
  check(scalify_rt_memory_copy_in(handle, to.data(), from, uint64_t(size)));
}

void Loaded::copyOut(void *to, const Slot &from, int64_t size) {
  check(scalify_rt_memory_copy_out(handle, to, from.data(), uint64_t(size)));
}

void Loaded::copyWithin(const Slot &to, const void *from, int64_t size) {
  check(scalify_rt_memory_copy(handle, to.data(), from, uint64_t(size)));
}

SlotRef scalify::rt::py::onHost(const SlotRef &slot, int64_t size) {
  if (!slot->device())
    return slot;
  SlotRef copy = hostSlot(size);
  slot->device()->copyOut(copy->data(), *slot, size);
  return copy;
}
