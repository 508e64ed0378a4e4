// What NCCL joins of what the plan asks for.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H

#include "comm/Communicator.h"
#include "device/cuda/Nccl.h"

namespace scalify::rt::cuda {

struct NcclJoin {
  NcclType type;
  NcclOp op;
};

/// True for collectives that compute.
bool isJoined(const Collective &collective);

/// How NCCL of that version joins such elements; throws Error, with the reason
/// and a way out, where it does not or where its result would be of no use.
NcclJoin joinOf(const Collective &collective, int version);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H
