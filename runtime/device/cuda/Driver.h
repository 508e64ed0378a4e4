// CUDA's driver API and cuBLASLt as one table of functions.
//
// Two classes fill the table: LoadedDriver with the entry points of this
// machine's libraries, and RecordingDriver with fakes that record every call.
// So the same CudaDevice runs on a GPU and, on any machine, in its tests.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "device/cuda/Attention.h"
#include "device/cuda/Nccl.h"
#include "device/cuda/Types.h"

#include <functional>
#include <memory>
#include <string>

// Every entry point: its symbol, including the version, and its signature.
#define SCALIFY_CUDA_ENTRIES(X)                                                \
  X(cuInit, Status(unsigned))                                                  \
  X(cuDriverGetVersion, Status(int *))                                         \
  X(cuDeviceGetCount, Status(int *))                                           \
  X(cuDeviceGet, Status(int *, int))                                           \
  X(cuDeviceGetName, Status(char *, int, int))                                 \
  X(cuDeviceGetAttribute, Status(int *, DeviceAttribute, int))                 \
  X(cuDevicePrimaryCtxRetain, Status(ContextHandle *, int))                    \
  X(cuDevicePrimaryCtxRelease_v2, Status(int))                                 \
  X(cuCtxSetCurrent, Status(ContextHandle))                                    \
  X(cuCtxSynchronize, Status())                                                \
  X(cuModuleLoadDataEx,                                                        \
    Status(ModuleHandle *, const void *, unsigned, JitOption *, void **))      \
  X(cuModuleUnload, Status(ModuleHandle))                                      \
  X(cuModuleGetFunction, Status(FunctionHandle *, ModuleHandle, const char *)) \
  X(cuLaunchKernel,                                                            \
    Status(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned,   \
           unsigned, unsigned, StreamHandle, void **, void **))                \
  X(cuMemAlloc_v2, Status(DevicePtr *, size_t))                                \
  X(cuMemFree_v2, Status(DevicePtr))                                           \
  X(cuMemHostAlloc, Status(void **, size_t, unsigned))                         \
  X(cuMemFreeHost, Status(void *))                                             \
  X(cuMemcpyHtoDAsync_v2,                                                      \
    Status(DevicePtr, const void *, size_t, StreamHandle))                     \
  X(cuMemcpyDtoHAsync_v2, Status(void *, DevicePtr, size_t, StreamHandle))     \
  X(cuMemcpyDtoDAsync_v2, Status(DevicePtr, DevicePtr, size_t, StreamHandle))  \
  X(cuMemcpyAsync, Status(DevicePtr, DevicePtr, size_t, StreamHandle))         \
  X(cuMemsetD8Async, Status(DevicePtr, unsigned char, size_t, StreamHandle))   \
  X(cuPointerGetAttribute, Status(void *, PointerAttribute, DevicePtr))        \
  X(cuStreamCreate, Status(StreamHandle *, unsigned))                          \
  X(cuStreamDestroy_v2, Status(StreamHandle))                                  \
  X(cuStreamSynchronize, Status(StreamHandle))                                 \
  X(cuStreamQuery, Status(StreamHandle))                                       \
  X(cuStreamWaitEvent, Status(StreamHandle, EventHandle, unsigned))            \
  X(cuEventCreate, Status(EventHandle *, unsigned))                            \
  X(cuEventDestroy_v2, Status(EventHandle))                                    \
  X(cuEventRecord, Status(EventHandle, StreamHandle))                          \
  X(cuEventQuery, Status(EventHandle))                                         \
  X(cuEventElapsedTime, Status(float *, EventHandle, EventHandle))             \
  X(cuStreamBeginCapture_v2, Status(StreamHandle, CaptureMode))                \
  X(cuStreamEndCapture, Status(StreamHandle, GraphHandle *))                   \
  X(cuGraphInstantiateWithFlags,                                               \
    Status(GraphExecHandle *, GraphHandle, unsigned long long))                \
  X(cuGraphExecUpdate_v2,                                                      \
    Status(GraphExecHandle, GraphHandle, GraphUpdateInfo *))                   \
  X(cuGraphLaunch, Status(GraphExecHandle, StreamHandle))                      \
  X(cuGraphDestroy, Status(GraphHandle))                                       \
  X(cuGraphExecDestroy, Status(GraphExecHandle))                               \
  X(cuGetErrorName, Status(Status, const char **))                             \
  X(cuGetErrorString, Status(Status, const char **))

#define SCALIFY_CUBLASLT_ENTRIES(X)                                            \
  X(cublasLtCreate, BlasStatus(BlasHandle *))                                  \
  X(cublasLtDestroy, BlasStatus(BlasHandle))                                   \
  X(cublasLtGetVersion, size_t())                                              \
  X(cublasLtGetStatusName, const char *(BlasStatus))                           \
  X(cublasLtMatmulDescCreate, BlasStatus(MatmulDesc *, ComputeType, DataType)) \
  X(cublasLtMatmulDescDestroy, BlasStatus(MatmulDesc))                         \
  X(cublasLtMatmulDescSetAttribute,                                            \
    BlasStatus(MatmulDesc, DescAttribute, const void *, size_t))               \
  X(cublasLtMatrixLayoutCreate,                                                \
    BlasStatus(MatrixLayout *, DataType, uint64_t, uint64_t, int64_t))         \
  X(cublasLtMatrixLayoutDestroy, BlasStatus(MatrixLayout))                     \
  X(cublasLtMatrixLayoutSetAttribute,                                          \
    BlasStatus(MatrixLayout, LayoutAttribute, const void *, size_t))           \
  X(cublasLtMatmulPreferenceCreate, BlasStatus(MatmulPreference *))            \
  X(cublasLtMatmulPreferenceDestroy, BlasStatus(MatmulPreference))             \
  X(cublasLtMatmulPreferenceSetAttribute,                                      \
    BlasStatus(MatmulPreference, PreferenceAttribute, const void *, size_t))   \
  X(cublasLtMatmulAlgoGetHeuristic,                                            \
    BlasStatus(BlasHandle, MatmulDesc, MatrixLayout, MatrixLayout,             \
               MatrixLayout, MatrixLayout, MatmulPreference, int,              \
               HeuristicResult *, int *))                                      \
  X(cublasLtMatmul,                                                            \
    BlasStatus(BlasHandle, MatmulDesc, const void *, const void *,             \
               MatrixLayout, const void *, MatrixLayout, const void *,         \
               const void *, MatrixLayout, void *, MatrixLayout,               \
               const MatmulAlgo *, void *, size_t, StreamHandle))

namespace scalify::rt::cuda {

struct Driver {
  Driver() = default;
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;
  virtual ~Driver() = default;

#define SCALIFY_ENTRY(name, ...) std::function<__VA_ARGS__> name;
  SCALIFY_CUDA_ENTRIES(SCALIFY_ENTRY)
  SCALIFY_CUBLASLT_ENTRIES(SCALIFY_ENTRY)
#undef SCALIFY_ENTRY

  /// Names the memory at an address, for a record: "arena", "arg3".
  virtual void label(DevicePtr address, size_t bytes, const std::string &name) {
  }
  /// Announces the number of parameters of a kernel's launches.
  virtual void expect(FunctionHandle function, size_t parameters) const {}
  /// Returns why cuBLASLt refused the last refused call, if known.
  virtual std::string refusal() const { return ""; }
  /// Opens cuDNN for the current context.
  virtual std::unique_ptr<AttentionLibrary> openAttention() = 0;
  /// Opens NCCL for collectives.
  virtual std::shared_ptr<Nccl> openNccl() = 0;
  /// True if other ranks cannot be reached, and exchanges are only recorded.
  virtual bool isAlone() const { return false; }
  /// Returns the record, one line per call.
  virtual std::string trace() const { return ""; }
};

/// Opens this machine's libraries at the first call. Throws an Error that names
/// a missing one.
std::shared_ptr<Driver> loadDriver();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H
