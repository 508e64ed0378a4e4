// Maps the plan's reductions to NCCL's.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H

#include "comm/Communicator.h"
#include "device/cuda/Nccl.h"

namespace scalify::rt::cuda {

struct NcclReduction {
  NcclType type;
  NcclOp op;
};

/// True for collectives that reduce.
bool isJoined(const Collective &collective);

/// Returns NCCL's type and op for the reduction. Throws an Error, with the
/// reason and a way out, if this version lacks it or its result would be
/// useless.
NcclReduction joinOf(const Collective &collective, int version);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_NCCLCONTRACT_H
