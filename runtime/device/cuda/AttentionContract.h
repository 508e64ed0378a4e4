// The constraints of cuDNN's fused attention on Hopper, from its manual and
// frontend. The recording checks them, and errors quote them.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTIONCONTRACT_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTIONCONTRACT_H

#include "loader/AttentionShape.h"

namespace scalify::rt::cuda {

/// "q", "k", "v", "o", "stats", "do", "dq", ...
const char *bufferName(const AttentionShape &shape, size_t buffer);

/// Returns why cuDNN would refuse the attention, or "".
std::string attentionViolation(const AttentionShape &shape);

/// Returns why cuDNN would refuse the buffers' addresses, or "".
std::string checkAttentionAddresses(const AttentionShape &shape,
                                    void *const *buffers);

/// "b=2 h=4 hk=2 q=256 k=256 d=128 bf16 scale=0.125 causal".
std::string describe(const AttentionShape &shape);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_ATTENTIONCONTRACT_H
