// The recording's devices, memory, modules and launches. Streams and graphs are
// in RecordingStreams.cpp, products in RecordingBlas.cpp.
#include "device/cuda/RecordingObjects.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

RecordingDriver::RecordingDriver() {
  bindDevice();
  bindMemory();
  bindCopies();
  bindModules();
  bindLaunch();
  bindStreams();
  bindEvents();
  bindCapture();
  bindGraphs();
  bindBlasObjects();
  bindDesc();
  bindLayout();
  bindPreference();
  bindHeuristic();
  bindMatmul();
}

RecordingDriver::~RecordingDriver() {
  for (const auto &[address, block] : memory)
    munmap(pointer(address), block.bytes);
}

bool RecordingDriver::fails(const char *call) {
  lastRefusal.clear();
  if (calls++ != failAt)
    return false;
  line(std::string(call) + " FAILS");
  return true;
}

void RecordingDriver::line(const std::string &text) { lines += text + "\n"; }

std::string RecordingDriver::on(StreamHandle stream) const {
  Object *object = get(stream, Kind::Stream);
  return !object || object->name == "0" ? "" : " stream=" + object->name;
}

Status RecordingDriver::work(const std::string &text, StreamHandle stream) {
  Object *object = get(stream, Kind::Stream);
  if (!object)
    return InvalidHandle;
  if (capturing && !object->isCaptured) {
    line(text + on(stream) + " refused: the stream is not captured");
    return CaptureUnsupported;
  }
  line(text + on(stream));
  ++object->issued;
  if (capturing)
    capturing->nodes.push_back(text.substr(0, text.find(' ')));
  return Success;
}

void RecordingDriver::label(DevicePtr address, size_t bytes,
                            const std::string &name) {
  labels[address] = {bytes, name, false};
}

void *RecordingDriver::find(const std::string &name) const {
  for (const auto &[address, block] : labels)
    if (block.name == name)
      return pointer(address);
  return nullptr;
}

bool RecordingDriver::covers(DevicePtr address, size_t bytes) const {
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    return false;
  const auto &[start, block] = *std::prev(after);
  return !block.isHost && address - start <= block.bytes &&
         bytes <= block.bytes - (address - start);
}

std::string RecordingDriver::at(DevicePtr address) const {
  auto after = labels.upper_bound(address);
  if (after != labels.begin()) {
    const auto &[start, block] = *std::prev(after);
    if (address - start < std::max<size_t>(block.bytes, 1))
      return block.name + "+" + std::to_string(address - start);
  }
  if (address == 0)
    return "null";
  return covers(address, 0) ? "unnamed" : "";
}

void RecordingDriver::bindDevice() {
  cuInit = [this](unsigned) { return fails("cuInit") ? NoDevice : Success; };
  cuDriverGetVersion = [this](int *out) {
    *out = 13000;
    return fails("cuDriverGetVersion") ? InvalidValue : Success;
  };
  cuDeviceGetCount = [this](int *out) {
    *out = gpus;
    return fails("cuDeviceGetCount") ? InvalidValue : Success;
  };
  cuDeviceGet = [this](int *out, int ordinal) {
    *out = ordinal;
    return fails("cuDeviceGet") || ordinal >= gpus ? InvalidDevice : Success;
  };
  cuDeviceGetName = [this](char *out, int size, int) {
    std::strncpy(out, "recording", size_t(size));
    return fails("cuDeviceGetName") ? InvalidValue : Success;
  };
  cuDeviceGetAttribute = [this](int *out, DeviceAttribute attribute, int) {
    *out = attribute == MultiprocessorCount      ? 132
           : attribute == ComputeCapabilityMajor ? capability / 10
                                                 : capability % 10;
    return fails("cuDeviceGetAttribute") ? InvalidValue : Success;
  };
  cuDevicePrimaryCtxRetain = [this](ContextHandle *out, int) {
    if (fails("cuDevicePrimaryCtxRetain"))
      return OutOfMemory;
    ++contexts;
    *out = reinterpret_cast<ContextHandle>(this);
    return Success;
  };
  cuDevicePrimaryCtxRelease_v2 = [this](int) {
    --contexts;
    return Success;
  };
  cuCtxSetCurrent = [this](ContextHandle) {
    return fails("cuCtxSetCurrent") ? InvalidContext : Success;
  };
  cuCtxSynchronize = [this] {
    if (fails("cuCtxSynchronize") || capturing)
      return capturing ? CaptureUnsupported : LaunchFailed;
    line("cuCtxSynchronize");
    return Success;
  };
  cuGetErrorName = [](Status status, const char **out) {
    *out = status == OutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
           : status == NotFound  ? "CUDA_ERROR_NOT_FOUND"
                                 : "CUDA_ERROR_RECORDED";
    return Success;
  };
  cuGetErrorString = [](Status, const char **out) {
    *out = "an error of the recording";
    return Success;
  };
}

Status RecordingDriver::take(const char *call, size_t bytes, bool isHost,
                             void **out) {
  if (fails(call) || capturing)
    return capturing ? CaptureUnsupported : OutOfMemory;
  if (bytes == 0)
    return InvalidValue;
  void *map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return OutOfMemory;
  memory[onDevice(map)] = {bytes, "", isHost};
  line(std::string(call) + " bytes=" + std::to_string(bytes));
  *out = map;
  return Success;
}

Status RecordingDriver::give(const char *call, void *address, bool isHost) {
  auto key = onDevice(address);
  auto found = memory.find(key);
  if (found == memory.end() || found->second.isHost != isHost)
    return InvalidValue;
  line(std::string(call) + " " + at(key));
  munmap(address, found->second.bytes);
  auto inside = [&](DevicePtr label) {
    return label >= key && label - key < found->second.bytes;
  };
  for (auto it = labels.lower_bound(key);
       it != labels.end() && inside(it->first);)
    it = labels.erase(it);
  memory.erase(found);
  return Success;
}

void RecordingDriver::bindMemory() {
  cuMemAlloc_v2 = [this](DevicePtr *out, size_t bytes) {
    void *address = nullptr;
    Status status = take("cuMemAlloc", bytes, false, &address);
    *out = onDevice(address);
    return status;
  };
  cuMemFree_v2 = [this](DevicePtr address) {
    return give("cuMemFree", pointer(address), false);
  };
  cuMemHostAlloc = [this](void **out, size_t bytes, unsigned) {
    return take("cuMemHostAlloc", bytes, true, out);
  };
  cuMemFreeHost = [this](void *address) {
    return give("cuMemFreeHost", address, true);
  };
  cuPointerGetAttribute = [this](void *out, PointerAttribute, DevicePtr p) {
    auto after = memory.upper_bound(p);
    if (after == memory.begin() ||
        p - std::prev(after)->first >= std::prev(after)->second.bytes)
      return InvalidValue; // memory that the driver does not know
    *static_cast<MemoryType *>(out) =
        std::prev(after)->second.isHost ? HostMemory : DeviceMemory;
    return Success;
  };
}

void RecordingDriver::bindCopies() {
  auto size = [](size_t bytes) { return " bytes=" + std::to_string(bytes); };
  cuMemcpyHtoDAsync_v2 = [=](DevicePtr dst, const void *src, size_t bytes,
                             StreamHandle) {
    if (fails("cuMemcpyHtoDAsync") || !covers(dst, bytes) || capturing)
      return capturing ? CaptureUnsupported : InvalidValue;
    line("cuMemcpyHtoDAsync " + at(dst) + size(bytes));
    std::memcpy(pointer(dst), src, bytes);
    return Success;
  };
  cuMemcpyDtoHAsync_v2 = [=](void *dst, DevicePtr src, size_t bytes,
                             StreamHandle) {
    if (fails("cuMemcpyDtoHAsync") || !covers(src, bytes) || capturing)
      return capturing ? CaptureUnsupported : InvalidValue;
    line("cuMemcpyDtoHAsync " + at(src) + size(bytes));
    std::memcpy(dst, pointer(src), bytes);
    return Success;
  };
  cuMemcpyDtoDAsync_v2 = [=](DevicePtr dst, DevicePtr src, size_t bytes,
                             StreamHandle stream) {
    if (fails("cuMemcpyDtoDAsync") || !covers(src, bytes) ||
        !covers(dst, bytes))
      return InvalidValue;
    if (fabric)
      std::memmove(pointer(dst), pointer(src), bytes);
    return work("cuMemcpyDtoDAsync " + at(dst) + " from " + at(src) +
                    size(bytes),
                stream);
  };
  // Used for callers' copies, never in a step: the bytes are moved.
  cuMemcpyAsync = [=](DevicePtr dst, DevicePtr src, size_t bytes,
                      StreamHandle) {
    if (fails("cuMemcpyAsync") || !covers(dst, bytes) || capturing)
      return capturing ? CaptureUnsupported : InvalidValue;
    line("cuMemcpyAsync " + at(dst) + " from " + at(src) + size(bytes));
    std::memcpy(pointer(dst), pointer(src), bytes);
    return Success;
  };
  cuMemsetD8Async = [=](DevicePtr dst, unsigned char byte, size_t bytes,
                        StreamHandle stream) {
    if (fails("cuMemsetD8Async") || !covers(dst, bytes))
      return InvalidValue;
    if (fabric)
      std::memset(pointer(dst), byte, bytes);
    return work("cuMemsetD8Async " + at(dst) + size(bytes) +
                    " byte=" + std::to_string(byte),
                stream);
  };
}

/// Returns the text between `.entry NAME(` and `)`, or null without such an
/// entry.
static const char *entryOf(const std::string &ptx, const std::string &name,
                           size_t &length) {
  for (size_t at = ptx.find(".entry"); at != std::string::npos;
       at = ptx.find(".entry", at + 1)) {
    size_t start = ptx.find_first_not_of(" \t\r\n", at + 6);
    if (start == std::string::npos || ptx.compare(start, name.size(), name))
      continue;
    size_t open = ptx.find_first_not_of(" \t\r\n", start + name.size());
    if (open == std::string::npos || (ptx[open] != '(' && ptx[open] != '{'))
      continue; // a longer name
    size_t close = ptx[open] == '(' ? ptx.find(')', open) : open;
    length = close == std::string::npos ? 0 : close - open;
    return ptx.c_str() + open;
  }
  return nullptr;
}

static size_t countParameters(const std::string &list) {
  size_t count = 0;
  for (size_t at = list.find(".param"); at != std::string::npos;
       at = list.find(".param", at + 1))
    ++count;
  return count;
}

void RecordingDriver::bindModules() {
  cuModuleLoadDataEx = [this](ModuleHandle *out, const void *image,
                              unsigned options, JitOption *keys,
                              void **values) {
    if (fails("cuModuleLoadDataEx"))
      return InvalidPtx;
    // The driver tells PTX from a cubin by its first bytes; so does the
    // recording.
    const char *bytes = static_cast<const char *>(image);
    if (std::memcmp(bytes, "\177ELF", 4) == 0) {
      line("cuModuleLoadDataEx cubin refused: a recording reads PTX only");
      return NoBinaryForGpu;
    }
    std::string text = bytes;
    if (text.find(".version") == std::string::npos) {
      for (unsigned i = 0; i < options; ++i)
        if (keys[i] == JitErrorLog)
          std::strcpy(static_cast<char *>(values[i]),
                      "ptxas fatal: no .version directive");
      line("cuModuleLoadDataEx ptx refused: no .version");
      return InvalidPtx;
    }
    make(out, Kind::Module);
    line("cuModuleLoadDataEx ptx bytes=" + std::to_string(text.size()));
    get(*out, Kind::Module)->text = std::move(text);
    return Success;
  };
  cuModuleUnload = [this](ModuleHandle module) {
    for (auto it = objects.begin(); it != objects.end();)
      it = it->second->owner == get(module, Kind::Module) ? objects.erase(it)
                                                          : std::next(it);
    return destroy(module, Kind::Module);
  };
  cuModuleGetFunction = [this](FunctionHandle *out, ModuleHandle module,
                               const char *name) {
    Object *owner = get(module, Kind::Module);
    if (fails("cuModuleGetFunction") || !owner)
      return InvalidHandle;
    size_t length = 0;
    const char *list = entryOf(owner->text, name, length);
    if (!list)
      return NotFound;
    make(out, Kind::Function);
    Object *function = get(*out, Kind::Function);
    function->name = name;
    function->owner = owner;
    function->parameters = countParameters(std::string(list, length));
    line(std::string("cuModuleGetFunction ") + name);
    return Success;
  };
}

void RecordingDriver::expect(FunctionHandle handle, size_t parameters) const {
  if (Object *function = get(handle, Kind::Function))
    function->expected = parameters;
}

void RecordingDriver::bindLaunch() {
  cuLaunchKernel = [this](FunctionHandle handle, unsigned gridX, unsigned gridY,
                          unsigned gridZ, unsigned blockX, unsigned blockY,
                          unsigned blockZ, unsigned shared, StreamHandle stream,
                          void **parameters, void **) {
    Object *function = get(handle, Kind::Function);
    if (fails("cuLaunchKernel") || !function || !get(stream, Kind::Stream))
      return InvalidHandle;
    std::string text = "cuLaunchKernel " + function->name;
    if (function->parameters != function->expected) {
      line(text + " refused: it takes " + std::to_string(function->parameters) +
           " parameters, not " + std::to_string(function->expected));
      return InvalidValue;
    }
    uint64_t threads = uint64_t(blockX) * blockY * blockZ;
    if (gridX == 0 || gridX > INT32_MAX || gridY != 1 || gridZ != 1 ||
        threads == 0 || threads > 1024)
      return InvalidValue;
    text += " grid=" + std::to_string(gridX) +
            " block=" + std::to_string(blockX) +
            " shared=" + std::to_string(shared) + " args=[";
    for (size_t i = 0; i < function->parameters; ++i) {
      std::string place = at(*static_cast<DevicePtr *>(parameters[i]));
      if (place.empty()) {
        line(text + " refused: parameter " + std::to_string(i) +
             " is not an address on the device");
        return IllegalAddress;
      }
      text += (i ? "," : "") + place;
    }
    return work(text + "]", stream);
  };
}
