// Compares our declarations of CUDA's driver API and cuBLASLt with NVIDIA's
// headers, at compile time, if present.
#include "SameCall.h"
#include "device/cuda/Driver.h"
#include "device/cuda/LtContract.h"

#include <dlfcn.h>

#include <gtest/gtest.h>

#ifdef SCALIFY_CUDA_HEADERS
#include <cublasLt.h>
#include <cuda.h>

namespace ours = scalify::rt::cuda;

namespace {
using ours::BlasStatus;
using ours::DataType;
using scalify::test::SameCall;
using namespace scalify::rt::cuda;

#define SCALIFY_CHECK(name, ...)                                               \
  static_assert(SameCall<__VA_ARGS__, decltype(::name)>::value, #name);
SCALIFY_CUDA_ENTRIES(SCALIFY_CHECK)
SCALIFY_CUBLASLT_ENTRIES(SCALIFY_CHECK)
#undef SCALIFY_CHECK

#define SCALIFY_CHECK(name, real)                                              \
  static_assert(int(ours::name) == int(real), #name);
SCALIFY_CHECK(Success, CUDA_SUCCESS)
SCALIFY_CHECK(InvalidValue, CUDA_ERROR_INVALID_VALUE)
SCALIFY_CHECK(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
SCALIFY_CHECK(NoDevice, CUDA_ERROR_NO_DEVICE)
SCALIFY_CHECK(InvalidDevice, CUDA_ERROR_INVALID_DEVICE)
SCALIFY_CHECK(InvalidImage, CUDA_ERROR_INVALID_IMAGE)
SCALIFY_CHECK(InvalidContext, CUDA_ERROR_INVALID_CONTEXT)
SCALIFY_CHECK(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)
SCALIFY_CHECK(InvalidPtx, CUDA_ERROR_INVALID_PTX)
SCALIFY_CHECK(UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
SCALIFY_CHECK(InvalidHandle, CUDA_ERROR_INVALID_HANDLE)
SCALIFY_CHECK(NotFound, CUDA_ERROR_NOT_FOUND)
SCALIFY_CHECK(IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS)
SCALIFY_CHECK(LaunchFailed, CUDA_ERROR_LAUNCH_FAILED)
SCALIFY_CHECK(CaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
SCALIFY_CHECK(CaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
SCALIFY_CHECK(CaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
SCALIFY_CHECK(TimedEvent, CU_EVENT_DEFAULT)
SCALIFY_CHECK(UntimedEvent, CU_EVENT_DISABLE_TIMING)
SCALIFY_CHECK(GraphUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
SCALIFY_CHECK(MultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SCALIFY_CHECK(ComputeCapabilityMajor,
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SCALIFY_CHECK(ComputeCapabilityMinor,
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SCALIFY_CHECK(JitErrorLog, CU_JIT_ERROR_LOG_BUFFER)
SCALIFY_CHECK(JitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
SCALIFY_CHECK(PointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
SCALIFY_CHECK(HostMemory, CU_MEMORYTYPE_HOST)
SCALIFY_CHECK(DeviceMemory, CU_MEMORYTYPE_DEVICE)
SCALIFY_CHECK(NonBlockingStream, CU_STREAM_NON_BLOCKING)
SCALIFY_CHECK(CaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SCALIFY_CHECK(BlasSuccess, CUBLAS_STATUS_SUCCESS)
SCALIFY_CHECK(BlasNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED)
SCALIFY_CHECK(BlasInvalidValue, CUBLAS_STATUS_INVALID_VALUE)
SCALIFY_CHECK(BlasExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED)
SCALIFY_CHECK(BlasNotSupported, CUBLAS_STATUS_NOT_SUPPORTED)
SCALIFY_CHECK(R32F, CUDA_R_32F)
SCALIFY_CHECK(R16F, CUDA_R_16F)
SCALIFY_CHECK(R16BF, CUDA_R_16BF)
SCALIFY_CHECK(R8F_E4M3, CUDA_R_8F_E4M3)
SCALIFY_CHECK(R8F_E5M2, CUDA_R_8F_E5M2)
SCALIFY_CHECK(Compute32F, CUBLAS_COMPUTE_32F)
SCALIFY_CHECK(Compute32FFastTF32, CUBLAS_COMPUTE_32F_FAST_TF32)
SCALIFY_CHECK(OpN, CUBLAS_OP_N)
SCALIFY_CHECK(OpT, CUBLAS_OP_T)
SCALIFY_CHECK(DescTransA, CUBLASLT_MATMUL_DESC_TRANSA)
SCALIFY_CHECK(DescTransB, CUBLASLT_MATMUL_DESC_TRANSB)
SCALIFY_CHECK(DescAScalePointer, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER)
SCALIFY_CHECK(DescBScalePointer, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)
SCALIFY_CHECK(DescDScalePointer, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER)
SCALIFY_CHECK(DescAmaxDPointer, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER)
SCALIFY_CHECK(DescFastAccum, CUBLASLT_MATMUL_DESC_FAST_ACCUM)
SCALIFY_CHECK(DescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE)
SCALIFY_CHECK(DescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
SCALIFY_CHECK(DescBiasDataType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
SCALIFY_CHECK(DescAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
SCALIFY_CHECK(DescAuxLd, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
SCALIFY_CHECK(DescAuxBatchStride,
              CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE)
SCALIFY_CHECK(EpilogueGELU, CUBLASLT_EPILOGUE_GELU)
SCALIFY_CHECK(EpilogueGELUBias, CUBLASLT_EPILOGUE_GELU_BIAS)
SCALIFY_CHECK(EpilogueGELUAux, CUBLASLT_EPILOGUE_GELU_AUX)
SCALIFY_CHECK(EpilogueGELUAuxBias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
SCALIFY_CHECK(EpilogueDGELU, CUBLASLT_EPILOGUE_DGELU)
SCALIFY_CHECK(EpilogueReLUAux, CUBLASLT_EPILOGUE_RELU_AUX)
SCALIFY_CHECK(EpilogueReLUAuxBias, CUBLASLT_EPILOGUE_RELU_AUX_BIAS)
SCALIFY_CHECK(EpilogueDReLU, CUBLASLT_EPILOGUE_DRELU)
SCALIFY_CHECK(EpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT)
SCALIFY_CHECK(EpilogueReLU, CUBLASLT_EPILOGUE_RELU)
SCALIFY_CHECK(EpilogueBias, CUBLASLT_EPILOGUE_BIAS)
SCALIFY_CHECK(EpilogueReLUBias, CUBLASLT_EPILOGUE_RELU_BIAS)
#if CUDA_VERSION >= 12090
SCALIFY_CHECK(DescAScaleMode, CUBLASLT_MATMUL_DESC_A_SCALE_MODE)
SCALIFY_CHECK(DescBScaleMode, CUBLASLT_MATMUL_DESC_B_SCALE_MODE)
SCALIFY_CHECK(ScaleScalar, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)
SCALIFY_CHECK(ScaleOuterVec, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
SCALIFY_CHECK(ScaleVec128, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)
SCALIFY_CHECK(ScaleBlk128x128, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F)
#endif
SCALIFY_CHECK(LayoutBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
SCALIFY_CHECK(LayoutBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
SCALIFY_CHECK(PrefMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
SCALIFY_CHECK(PrefAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
SCALIFY_CHECK(PrefAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
SCALIFY_CHECK(PrefAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
SCALIFY_CHECK(PrefAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
#undef SCALIFY_CHECK

static_assert(sizeof(ours::DevicePtr) == sizeof(CUdeviceptr));
static_assert(sizeof(ours::GraphUpdateInfo) ==
              sizeof(CUgraphExecUpdateResultInfo));
static_assert(offsetof(ours::GraphUpdateInfo, errorNode) ==
              offsetof(CUgraphExecUpdateResultInfo, errorNode));
static_assert(sizeof(ours::MatmulAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(ours::HeuristicResult) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(ours::HeuristicResult, workspaceSize) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(ours::HeuristicResult, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(ours::HeuristicResult, wavesCount) ==
              offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
} // namespace

TEST(CudaAbi, IsThatOfNvidiasHeaders) {
  // The symbol's version is part of the interface. If a header maps this name
  // to another symbol, the comparison above covers its signature.
  static_assert(CUDA_VERSION >= 12000);
  SUCCEED();
}
#else
TEST(CudaAbi, IsThatOfNvidiasHeaders) {
  GTEST_SKIP() << "no cuda.h and cublasLt.h: nothing to compare with";
}
#endif

#ifdef SCALIFY_CUBLASLT_LIBRARY
namespace {
template <typename Signature>
std::function<Signature> entry(void *library, const char *name) {
  return reinterpret_cast<Signature *>(dlsym(library, name));
}
} // namespace

// Descriptors are created on the host: without a GPU the real library accepts
// our attributes with their sizes, and refuses a wrong size.
TEST(CudaAbi, CublasLtTakesOurAttributes) {
  using namespace scalify::rt::cuda;
  void *library = dlopen(SCALIFY_CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    GTEST_SKIP() << dlerror();
#define SCALIFY_LOAD(name, ...)                                                \
  auto name = entry<__VA_ARGS__>(library, #name);                              \
  ASSERT_TRUE(name);
  SCALIFY_CUBLASLT_ENTRIES(SCALIFY_LOAD)
#undef SCALIFY_LOAD
  EXPECT_GE(cublasLtGetVersion(), 120000u);
  EXPECT_STREQ(cublasLtGetStatusName(BlasNotSupported),
               "CUBLAS_STATUS_NOT_SUPPORTED");
  MatmulDesc desc = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&desc, Compute32F, R32F), BlasSuccess);
  auto setDesc = [&](DescAttribute what, const auto &value) {
    return cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof(value));
  };
  const uintptr_t address = 256;
  EXPECT_EQ(setDesc(DescTransA, OpT), BlasSuccess);
  EXPECT_EQ(setDesc(DescTransB, OpN), BlasSuccess);
  EXPECT_EQ(setDesc(DescAScalePointer, address), BlasSuccess);
  EXPECT_EQ(setDesc(DescBScalePointer, address), BlasSuccess);
  EXPECT_EQ(setDesc(DescFastAccum, int8_t(1)), BlasSuccess);
  EXPECT_EQ(setDesc(DescFastAccum, int64_t(1)), BlasInvalidValue);
  EXPECT_EQ(setDesc(DescEpilogue, EpilogueReLUBias), BlasSuccess);
  EXPECT_EQ(setDesc(DescEpilogue, uint64_t(6)), BlasInvalidValue);
  EXPECT_EQ(setDesc(DescBiasPointer, address), BlasSuccess);
  EXPECT_EQ(setDesc(DescAuxPointer, address), BlasSuccess);
  EXPECT_EQ(setDesc(DescAuxLd, int64_t(64)), BlasSuccess);
  EXPECT_EQ(setDesc(DescAuxLd, int32_t(64)), BlasInvalidValue);
  EXPECT_EQ(setDesc(DescAuxBatchStride, int64_t(3072)), BlasSuccess);
  EXPECT_EQ(setDesc(DescBiasDataType, R16BF), BlasSuccess);
  EXPECT_EQ(setDesc(DescBiasDataType, int64_t(14)), BlasInvalidValue);
  if (cublasLtGetVersion() >= ltVersionOfModes) {
    EXPECT_EQ(setDesc(DescAScaleMode, ScaleVec128), BlasSuccess);
    EXPECT_EQ(setDesc(DescBScaleMode, ScaleBlk128x128), BlasSuccess);
    EXPECT_EQ(setDesc(DescBScaleMode, int64_t(5)), BlasInvalidValue);
  }
  EXPECT_EQ(cublasLtMatmulDescDestroy(desc), BlasSuccess);
  MatrixLayout layout = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, R8F_E5M2, 64, 48, 64),
            BlasSuccess);
  auto setLayout = [&](LayoutAttribute what, const auto &value) {
    return cublasLtMatrixLayoutSetAttribute(layout, what, &value,
                                            sizeof(value));
  };
  EXPECT_EQ(setLayout(LayoutBatchCount, int32_t(2)), BlasSuccess);
  EXPECT_EQ(setLayout(LayoutBatchStride, int64_t(3072)), BlasSuccess);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), BlasSuccess);
  MatmulPreference preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), BlasSuccess);
  auto setPreference = [&](PreferenceAttribute what, const auto &value) {
    return cublasLtMatmulPreferenceSetAttribute(preference, what, &value,
                                                sizeof(value));
  };
  EXPECT_EQ(setPreference(PrefMaxWorkspace, size_t(1) << 25), BlasSuccess);
  for (PreferenceAttribute what :
       {PrefAlignmentA, PrefAlignmentB, PrefAlignmentC, PrefAlignmentD})
    EXPECT_EQ(setPreference(what, uint32_t(64)), BlasSuccess);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), BlasSuccess);
}
#endif
