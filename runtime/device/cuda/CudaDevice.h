// An NVIDIA GPU by CUDA's driver API: a function's second step is captured as
// one graph, later steps replay it.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "device/Device.h"
#include "device/cuda/Driver.h"

namespace scalify::rt::cuda {

/// A device on the GPU of that number, by the calls of `driver`.
std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<Driver> driver,
                                       int ordinal);

/// The same on a recording: the null device for artefacts of a GPU.
std::unique_ptr<Device> makeRecordingDevice();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
