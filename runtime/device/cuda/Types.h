// The types and constants of CUDA's driver API and cuBLASLt in use.
//
// Declared here instead of included, so that the runtime builds on a machine
// without CUDA: the libraries are opened when an artefact needs them. The
// numbers are part of NVIDIA's binary interface and never change;
// unittests/runtime/CudaAbiTest.cpp compares them with the real headers if
// present.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_TYPES_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_TYPES_H

#include <cstddef>
#include <cstdint>

namespace scalify::rt::cuda {

using DevicePtr = unsigned long long;
/// Converts between the driver's integers and the pointers of the rest of the
/// runtime and cuBLASLt.
inline void *pointer(DevicePtr address) {
  return reinterpret_cast<void *>(address); // NOLINT(performance-no-int-to-ptr)
}
inline DevicePtr onDevice(const void *address) {
  return reinterpret_cast<DevicePtr>(address);
}

using ContextHandle = struct ContextObject *;
using ModuleHandle = struct ModuleObject *;
using FunctionHandle = struct FunctionObject *;
using StreamHandle = struct StreamObject *;
using EventHandle = struct EventObject *;
using GraphHandle = struct GraphObject *;
using GraphExecHandle = struct GraphExecObject *;

/// CUresult.
enum Status : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchFailed = 719,
  CaptureUnsupported = 900,
  CaptureUnmatched = 903,
  CaptureUnjoined = 904,
  GraphUpdateFailure = 910,
};

/// CUdevice_attribute.
enum DeviceAttribute : int {
  MultiprocessorCount = 16,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
};

/// CUjit_option.
enum JitOption : int { JitErrorLog = 5, JitErrorLogBytes = 6 };

/// CUpointer_attribute and CUmemorytype.
enum PointerAttribute : int { PointerMemoryType = 2 };
enum MemoryType : unsigned { HostMemory = 1, DeviceMemory = 2 };

/// CUstream_flags and CUstreamCaptureMode.
enum StreamFlags : unsigned { NonBlockingStream = 1 };
/// CUevent_flags.
enum EventFlags : unsigned { TimedEvent = 0, UntimedEvent = 2 };
enum CaptureMode : int { CaptureThreadLocal = 1 };

/// CUgraphExecUpdateResultInfo.
struct GraphUpdateInfo {
  int result;
  void *errorNode;
  void *errorFromNode;
};

using BlasHandle = struct BlasObject *;
using MatmulDesc = struct MatmulDescObject *;
using MatrixLayout = struct MatrixLayoutObject *;
using MatmulPreference = struct MatmulPreferenceObject *;

/// cublasStatus_t.
enum BlasStatus : int {
  BlasSuccess = 0,
  BlasNotInitialized = 1,
  BlasInvalidValue = 7,
  BlasExecutionFailed = 13,
  BlasNotSupported = 15,
};

/// cudaDataType_t.
enum DataType : int {
  R32F = 0,
  R16F = 2,
  R16BF = 14,
  R8F_E4M3 = 28,
  R8F_E5M2 = 29,
};

/// cublasComputeType_t.
enum ComputeType : int { Compute32F = 68, Compute32FFastTF32 = 77 };

/// cublasOperation_t.
enum Operation : int { OpN = 0, OpT = 1 };

/// cublasLtMatmulDescAttributes_t.
enum DescAttribute : int {
  DescTransA = 3,
  DescTransB = 4,
  DescEpilogue = 7,
  DescBiasPointer = 8,
  DescAuxPointer = 11,
  DescAuxLd = 12,
  DescAuxBatchStride = 13,
  DescAScalePointer = 17,
  DescBScalePointer = 18,
  DescDScalePointer = 20,
  DescAmaxDPointer = 21,
  DescFastAccum = 25,
  DescBiasDataType = 26,
  DescAScaleMode = 31,
  DescBScaleMode = 32,
};

/// cublasLtEpilogue_t: one bit each for ReLU, bias, the gradient of ReLU, GELU,
/// the gradient of GELU, and the `aux` of gradients.
enum LtEpilogue : uint32_t {
  EpilogueDefault = 1,
  EpilogueReLU = 2,
  EpilogueBias = 4,
  EpilogueReLUBias = 6,
  EpilogueGELU = 32,
  EpilogueReLUAux = 130,
  EpilogueReLUAuxBias = 134,
  EpilogueDReLU = 136,
  EpilogueGELUBias = 36,
  EpilogueGELUAux = 160,
  EpilogueGELUAuxBias = 164,
  EpilogueDGELU = 192,
};

/// cublasLtMatmulMatrixScale_t.
enum ScaleMode : int32_t {
  ScaleScalar = 0,
  ScaleOuterVec = 3,
  ScaleVec128 = 4,
  ScaleBlk128x128 = 5,
};

/// cublasLtMatrixLayoutAttribute_t.
enum LayoutAttribute : int { LayoutBatchCount = 5, LayoutBatchStride = 6 };

/// cublasLtMatmulPreferenceAttributes_t.
enum PreferenceAttribute : int {
  PrefMaxWorkspace = 1,
  PrefAlignmentA = 5,
  PrefAlignmentB = 6,
  PrefAlignmentC = 7,
  PrefAlignmentD = 8,
};

/// cublasLtMatmulAlgo_t: plain words, which may be copied and stored.
struct MatmulAlgo {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  MatmulAlgo algo;
  size_t workspaceSize;
  BlasStatus state;
  float wavesCount;
  int reserved[4];
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_TYPES_H
