#include "device/cuda/Session.h"
#include "support/Error.h"

#include <algorithm>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

Session::Session(std::shared_ptr<Driver> table, int ordinal,
                 const Program &program)
    : driver(std::move(table)) {
  check(driver->cuInit(0), "cuInit");
  int count = 0;
  check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count)
    badArgument("there is no GPU " + std::to_string(ordinal) +
                ": the driver shows " + std::to_string(count));
  check(driver->cuDeviceGet(&device, ordinal), "cuDeviceGet");
  char text[128] = {};
  check(driver->cuDeviceGetName(text, sizeof(text) - 1, device),
        "cuDeviceGetName");
  name = text;
  int major = 0, minor = 0;
  check(driver->cuDeviceGetAttribute(&major, ComputeCapabilityMajor, device),
        "cuDeviceGetAttribute");
  check(driver->cuDeviceGetAttribute(&minor, ComputeCapabilityMinor, device),
        "cuDeviceGetAttribute");
  // The `a` of architectures such as sm_90a restricts the code to them.
  if (int capability = 10 * major + minor; capability != program.capability)
    unsupported("artefact is for target '" + program.target +
                "', a GPU of compute capability " +
                std::to_string(program.capability) + "; '" + name + "' has " +
                std::to_string(capability));
  ContextHandle handle = nullptr;
  check(driver->cuDevicePrimaryCtxRetain(&handle, device),
        "cuDevicePrimaryCtxRetain");
  context = {handle, [driver = driver, device = device](ContextHandle) {
               driver->cuDevicePrimaryCtxRelease_v2(device);
             }};
  makeCurrent();
}

void Session::makeCurrent() const {
  check(driver->cuCtxSetCurrent(context.get()), "cuCtxSetCurrent");
}

std::string Session::where() const {
  if (!command)
    return "";
  std::string text =
      std::string(" in ") + rt::name(command->op) + " '" + command->name + "'";
  return command->loc.empty() ? text : text + " at " + command->loc;
}

void Session::check(Status status, const char *call, const char *advice) const {
  if (status == Success)
    return;
  const char *name = nullptr, *words = nullptr;
  driver->cuGetErrorName(status, &name);
  driver->cuGetErrorString(status, &words);
  std::string text = std::string(call) + " failed" + where() + ": " +
                     (name ? name : "CUDA error " + std::to_string(status));
  if (words)
    text += std::string(" (") + words + ")";
  if (*advice)
    text += std::string("; ") + advice;
  bool isMissing = status == NoDevice;
  throw Error(isMissing ? SCALIFY_RT_UNSUPPORTED : SCALIFY_RT_INTERNAL, text);
}

void Session::check(BlasStatus status, const char *call,
                    const std::string &detail) const {
  if (status == BlasSuccess)
    return;
  const char *name = driver->cublasLtGetStatusName(status);
  std::string text = std::string(call) + " failed" + where() + ": " +
                     (name ? name : "status " + std::to_string(status));
  std::string reason = driver->refusal();
  if (!reason.empty())
    text += " (" + reason + ")";
  bool isRefused = status == BlasInvalidValue || status == BlasNotSupported;
  throw Error(isRefused ? SCALIFY_RT_UNSUPPORTED : SCALIFY_RT_INTERNAL,
              detail.empty() ? text : text + "; " + detail);
}

void Session::refuse(const char *call, const std::string &reason) const {
  unsupported(std::string(call) + " failed" + where() + ": " + reason);
}

DeviceBlock Session::allocate(size_t bytes, const std::string &name) const {
  DevicePtr address = 0;
  // An empty block has an address too.
  bytes = std::max<size_t>(bytes, 1);
  try {
    check(driver->cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
  } catch (const Error &error) {
    throw Error(error.status, std::string(error.what()) + ", for " + name +
                                  " of " + std::to_string(bytes) + " bytes");
  }
  driver->label(address, bytes, name);
  return {address, [driver = driver](DevicePtr p) { driver->cuMemFree_v2(p); }};
}

HostBlock Session::allocateHost(size_t bytes) const {
  void *address = nullptr;
  check(driver->cuMemHostAlloc(&address, std::max<size_t>(bytes, 1), 0),
        "cuMemHostAlloc");
  return {address, [driver = driver](void *p) { driver->cuMemFreeHost(p); }};
}

Owned<StreamHandle> Session::makeStream() const {
  StreamHandle stream = nullptr;
  // Does not synchronise with the legacy stream, which other libraries use.
  check(driver->cuStreamCreate(&stream, NonBlockingStream), "cuStreamCreate");
  return {stream,
          [driver = driver](StreamHandle s) { driver->cuStreamDestroy_v2(s); }};
}

Owned<EventHandle> Session::makeEvent(EventFlags flags) const {
  EventHandle event = nullptr;
  check(driver->cuEventCreate(&event, flags), "cuEventCreate");
  return {event,
          [driver = driver](EventHandle e) { driver->cuEventDestroy_v2(e); }};
}
