// The NCCL calls in use, as a table of functions.
//
// Like the driver's (Driver.h), LoadedNccl.cpp fills it from libnccl.so.2 of
// this machine, and RecordingNccl.cpp with fakes that record calls.
// unittests/runtime/NcclAbiTest.cpp compares it with nccl.h if present.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_NCCL_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_NCCL_H

#include "device/cuda/Types.h"

#include <climits>
#include <functional>
#include <memory>

namespace scalify::rt::cuda {

using NcclComm = struct NcclCommObject *;

/// ncclUniqueId.
struct NcclId {
  char bytes[128];
};

/// ncclResult_t.
enum NcclStatus : int {
  NcclSuccess = 0,
  NcclUnhandledCudaError = 1,
  NcclSystemError = 2,
  NcclInternalError = 3,
  NcclInvalidArgument = 4,
  NcclInvalidUsage = 5,
  NcclRemoteError = 6,
  NcclInProgress = 7,
};

/// ncclDataType_t.
enum NcclType : int {
  NcclInt8 = 0,
  NcclUint8 = 1,
  NcclInt32 = 2,
  NcclUint32 = 3,
  NcclInt64 = 4,
  NcclUint64 = 5,
  NcclFloat16 = 6,
  NcclFloat32 = 7,
  NcclFloat64 = 8,
  NcclBfloat16 = 9,
  NcclFloat8e4m3 = 10,
  NcclFloat8e5m2 = 11,
};

/// ncclRedOp_t.
enum NcclOp : int { NcclSum = 0, NcclProd = 1, NcclMax = 2, NcclMin = 3 };

/// The first versions with ncclCommSplit, and with FP8 in reductions.
constexpr int ncclVersionOfSplit = 21800;
constexpr int ncclVersionOfFP8 = 22400;

/// ncclConfig_t of 2.18: a library accepts a shorter struct by its size, and
/// fills in the missing fields.
struct NcclConfig {
  static constexpr int unset = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = unsigned(ncclVersionOfSplit);
  /// Calls return at once, so that a peer that does not join is noticed.
  int blocking = 0;
  int cgaClusterSize = unset, minCTAs = unset, maxCTAs = unset;
  const char *netName = nullptr;
  int splitShare = unset;
  int afterwards = unset; // the next field in later versions
};

#define SCALIFY_NCCL_ENTRIES(X)                                                \
  X(ncclGetVersion, NcclStatus(int *))                                         \
  X(ncclGetUniqueId, NcclStatus(NcclId *))                                     \
  X(ncclCommInitRankConfig,                                                    \
    NcclStatus(NcclComm *, int, NcclId, int, NcclConfig *))                    \
  X(ncclCommSplit, NcclStatus(NcclComm, int, int, NcclComm *, NcclConfig *))   \
  X(ncclCommFinalize, NcclStatus(NcclComm))                                    \
  X(ncclCommDestroy, NcclStatus(NcclComm))                                     \
  X(ncclCommAbort, NcclStatus(NcclComm))                                       \
  X(ncclCommGetAsyncError, NcclStatus(NcclComm, NcclStatus *))                 \
  X(ncclGetLastError, const char *(NcclComm))                                  \
  X(ncclGetErrorString, const char *(NcclStatus))                              \
  X(ncclGroupStart, NcclStatus())                                              \
  X(ncclGroupEnd, NcclStatus())                                                \
  X(ncclSend,                                                                  \
    NcclStatus(const void *, size_t, NcclType, int, NcclComm, StreamHandle))   \
  X(ncclRecv,                                                                  \
    NcclStatus(void *, size_t, NcclType, int, NcclComm, StreamHandle))         \
  X(ncclAllGather, NcclStatus(const void *, void *, size_t, NcclType,          \
                              NcclComm, StreamHandle))                         \
  X(ncclBroadcast, NcclStatus(const void *, void *, size_t, NcclType, int,     \
                              NcclComm, StreamHandle))                         \
  X(ncclReduceScatter, NcclStatus(const void *, void *, size_t, NcclType,      \
                                  NcclOp, NcclComm, StreamHandle))             \
  X(ncclAllReduce, NcclStatus(const void *, void *, size_t, NcclType, NcclOp,  \
                              NcclComm, StreamHandle))

struct Nccl {
  virtual ~Nccl() = default;
#define SCALIFY_ENTRY(name, ...) std::function<__VA_ARGS__> name;
  SCALIFY_NCCL_ENTRIES(SCALIFY_ENTRY)
#undef SCALIFY_ENTRY
};

/// Opens this machine's NCCL. Throws an Error that names the missing part.
std::shared_ptr<Nccl> loadNccl();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_NCCL_H
