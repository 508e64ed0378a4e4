// An NVIDIA GPU through CUDA's driver API: a function's second step is captured
// as a graph, which later steps replay.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "device/Device.h"
#include "device/cuda/Driver.h"

namespace scalify::rt::cuda {

/// Returns a device for a program on the GPU of that index, which calls
/// `driver`.
std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<Driver> driver,
                                       int ordinal, const Program &program);

/// Returns the null device for a GPU's artefact: the same on a recording.
std::unique_ptr<Device> makeRecordingDevice(const Program &program);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
