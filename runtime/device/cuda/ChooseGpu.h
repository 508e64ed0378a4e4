// Which of the machine's GPUs a rank runs on.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H

#include "device/cuda/Driver.h"

#include <cstdint>

namespace scalify::rt::cuda {

/// The number of a GPU, of those that the driver shows: the one `asked` for,
/// where that is not 0, or of SCALIFY_GPU, or as many as this rank is on its
/// machine. One GPU that CUDA_VISIBLE_DEVICES names is its rank's. Throws Error
/// where there are fewer GPUs than ranks.
int32_t chooseGpu(const Driver &driver, int32_t asked);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_CHOOSEGPU_H
