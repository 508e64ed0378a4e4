// The recording's handles: addresses of objects that it owns.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGOBJECTS_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGOBJECTS_H

#include "device/cuda/RecordingDriver.h"

namespace scalify::rt::cuda {

template <typename Handle>
Status RecordingDriver::make(Handle *out, Kind kind) {
  auto object = std::make_unique<Object>();
  object->kind = kind;
  object->name = std::to_string(made[kind]++);
  *out = reinterpret_cast<Handle>(object.get());
  objects[object.get()] = std::move(object);
  return Success;
}

/// Returns null for a value that is no handle of that kind.
template <typename Handle>
RecordingDriver::Object *RecordingDriver::get(Handle handle, Kind kind) const {
  auto found = objects.find(handle);
  return found != objects.end() && found->second->kind == kind
             ? found->second.get()
             : nullptr;
}

template <typename Handle>
Status RecordingDriver::destroy(Handle handle, Kind kind) {
  if (!get(handle, kind))
    return InvalidHandle;
  objects.erase(static_cast<const void *>(handle));
  return Success;
}

template <typename Handle>
BlasStatus RecordingDriver::blasMake(Handle *out, Kind kind) {
  make(out, kind);
  return BlasSuccess;
}

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_RECORDINGOBJECTS_H
