// The choice of a rank's GPU.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H

#include "device/cuda/Driver.h"

#include <cstdint>

namespace scalify::rt::cuda {

/// Returns the index of a GPU among those that the driver shows: `asked` unless
/// it is 0, else SCALIFY_GPU, else the rank's number on its machine. If
/// CUDA_VISIBLE_DEVICES shows one GPU, the rank gets it. Throws an Error if
/// there are fewer GPUs than ranks.
int32_t chooseGpu(const Driver &driver, int32_t asked);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H
