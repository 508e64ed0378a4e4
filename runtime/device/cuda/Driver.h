// CUDA's driver API and cuBLASLt as one table of functions.
//
// Two things fill the table: LoadedDriver with the entry points of the
// libraries on this machine, and RecordingDriver with fakes that write down
// every call. So one CudaDevice serves a GPU and, on any machine, its tests.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "device/cuda/Attention.h"
#include "device/cuda/Nccl.h"
#include "device/cuda/Types.h"

#include <functional>
#include <memory>
#include <string>

// Every entry point: its symbol, the version included, and its signature.
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

  /// Says what lies at an address, for a record: "arena", "arg3".
  virtual void label(DevicePtr address, size_t bytes, const std::string &name) {
  }
  /// Says how many parameters a kernel will be launched with.
  virtual void expect(FunctionHandle function, size_t parameters) const {}
  /// Why cuBLASLt refused the last thing that it refused, where it tells.
  virtual std::string refusal() const { return ""; }
  /// cuDNN, for the current context.
  virtual std::unique_ptr<AttentionLibrary> openAttention() = 0;
  /// NCCL, for collectives.
  virtual std::shared_ptr<Nccl> openNccl() = 0;
  /// True where other ranks cannot be reached, and what is exchanged is only
  /// written down.
  virtual bool isAlone() const { return false; }
  /// One line a call.
  virtual std::string trace() const { return ""; }
};

/// The libraries of this machine, opened at the first call. Throws Error that
/// says which one is missing.
std::shared_ptr<Driver> loadDriver();

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_DRIVER_H
