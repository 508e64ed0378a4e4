// The recording's cuBLASLt: accepts what the manual allows.
#include "device/cuda/RecordingObjects.h"

#include <cstdio>
#include <cstring>

using namespace scalify::rt;
using namespace scalify::rt::cuda;

namespace {
/// Reads an attribute's value; returns false if its size is wrong.
template <typename T> bool read(T &out, const void *from, size_t size) {
  if (size != sizeof(T))
    return false;
  std::memcpy(static_cast<void *>(&out), from, sizeof(T));
  return true;
}
} // namespace

BlasStatus RecordingDriver::refuse(const char *call, BlasStatus status,
                                   const std::string &reason) {
  lastRefusal = reason;
  line(std::string(call) + " refused: " + reason);
  return status;
}

void RecordingDriver::bindBlasObjects() {
  cublasLtCreate = [this](BlasHandle *out) {
    return fails("cublasLtCreate") ? BlasNotInitialized
                                   : blasMake(out, Kind::Blas);
  };
  cublasLtDestroy = [this](BlasHandle handle) {
    return destroy(handle, Kind::Blas) ? BlasInvalidValue : BlasSuccess;
  };
  cublasLtGetVersion = [this] { return blasVersion; };
  cublasLtGetStatusName = [](BlasStatus status) {
    return status == BlasInvalidValue   ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == BlasNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                        : "CUBLAS_STATUS_RECORDED";
  };
}

void RecordingDriver::bindDesc() {
  cublasLtMatmulDescCreate = [this](MatmulDesc *out, ComputeType compute,
                                    DataType scale) {
    if (fails("cublasLtMatmulDescCreate"))
      return BlasNotInitialized;
    blasMake(out, Kind::Desc);
    LtProblem &product = get(*out, Kind::Desc)->product;
    product.compute = compute;
    product.scaleType = scale;
    return BlasSuccess;
  };
  cublasLtMatmulDescDestroy = [this](MatmulDesc desc) {
    return destroy(desc, Kind::Desc) ? BlasInvalidValue : BlasSuccess;
  };
  cublasLtMatmulDescSetAttribute = [this](MatmulDesc desc, DescAttribute what,
                                          const void *from, size_t size) {
    Object *object = get(desc, Kind::Desc);
    if (fails("cublasLtMatmulDescSetAttribute") || !object)
      return BlasInvalidValue;
    LtProblem &p = object->product;
    auto set = [&](auto &field) {
      return read(field, from, size) ? BlasSuccess : BlasInvalidValue;
    };
    int8_t fast = 0;
    switch (what) {
    case DescTransA:
      return set(p.opA);
    case DescTransB:
      return set(p.opB);
    case DescAScalePointer:
      return set(p.aScale);
    case DescBScalePointer:
      return set(p.bScale);
    case DescDScalePointer:
      return set(p.dScale);
    case DescAmaxDPointer:
      return set(p.amax);
    case DescFastAccum: {
      BlasStatus status = set(fast);
      p.fastAccumulation = fast != 0;
      return status;
    }
    case DescEpilogue:
      return set(p.epilogue);
    case DescBiasPointer:
      return set(p.bias);
    case DescAuxPointer:
      return set(p.aux);
    case DescAuxLd:
      return set(p.auxLeading);
    case DescAuxBatchStride:
      return set(p.auxBatchStride);
    case DescBiasDataType:
      return set(p.biasType);
    case DescAScaleMode:
      return blasVersion >= ltVersionOfModes ? set(p.aMode) : BlasInvalidValue;
    case DescBScaleMode:
      return blasVersion >= ltVersionOfModes ? set(p.bMode) : BlasInvalidValue;
    default:
      return BlasInvalidValue;
    }
  };
}

void RecordingDriver::bindLayout() {
  cublasLtMatrixLayoutCreate = [this](MatrixLayout *out, DataType type,
                                      uint64_t rows, uint64_t cols,
                                      int64_t leading) {
    if (fails("cublasLtMatrixLayoutCreate"))
      return BlasNotInitialized;
    blasMake(out, Kind::Layout);
    get(*out, Kind::Layout)->side = {type, rows, cols, leading, 1, 0};
    return BlasSuccess;
  };
  cublasLtMatrixLayoutDestroy = [this](MatrixLayout layout) {
    return destroy(layout, Kind::Layout) ? BlasInvalidValue : BlasSuccess;
  };
  cublasLtMatrixLayoutSetAttribute = [this](MatrixLayout layout,
                                            LayoutAttribute what,
                                            const void *from, size_t size) {
    Object *object = get(layout, Kind::Layout);
    if (fails("cublasLtMatrixLayoutSetAttribute") || !object)
      return BlasInvalidValue;
    bool right = what == LayoutBatchCount
                     ? read(object->side.batch, from, size)
                     : read(object->side.batchStride, from, size);
    return right ? BlasSuccess : BlasInvalidValue;
  };
}

void RecordingDriver::bindPreference() {
  cublasLtMatmulPreferenceCreate = [this](MatmulPreference *out) {
    return fails("cublasLtMatmulPreferenceCreate")
               ? BlasNotInitialized
               : blasMake(out, Kind::Preference);
  };
  cublasLtMatmulPreferenceDestroy = [this](MatmulPreference preference) {
    return destroy(preference, Kind::Preference) ? BlasInvalidValue
                                                 : BlasSuccess;
  };
  cublasLtMatmulPreferenceSetAttribute = [this](MatmulPreference preference,
                                                PreferenceAttribute what,
                                                const void *from, size_t size) {
    Object *object = get(preference, Kind::Preference);
    if (fails("cublasLtMatmulPreferenceSetAttribute") || !object)
      return BlasInvalidValue;
    bool right =
        what == PrefMaxWorkspace
            ? read(object->workspace, from, size)
            : read(object->alignment[what - PrefAlignmentA], from, size);
    return right ? BlasSuccess : BlasInvalidValue;
  };
}

LtProblem RecordingDriver::problemOf(MatmulDesc desc, MatrixLayout a,
                                     MatrixLayout b, MatrixLayout c,
                                     MatrixLayout d) const {
  LtProblem problem = get(desc, Kind::Desc)->product;
  problem.a = get(a, Kind::Layout)->side;
  problem.b = get(b, Kind::Layout)->side;
  problem.d = get(d, Kind::Layout)->side;
  if (DataType type = get(c, Kind::Layout)->side.type; type != problem.d.type)
    problem.cType = type;
  return problem;
}

void RecordingDriver::bindHeuristic() {
  cublasLtMatmulAlgoGetHeuristic =
      [this](BlasHandle, MatmulDesc desc, MatrixLayout a, MatrixLayout b,
             MatrixLayout c, MatrixLayout d, MatmulPreference preference,
             int asked, HeuristicResult *out, int *found) {
        const char *call = "cublasLtMatmulAlgoGetHeuristic";
        *found = 0;
        if (fails(call))
          return BlasExecutionFailed;
        LtProblem problem = problemOf(desc, a, b, c, d);
        BlasStatus status = BlasSuccess;
        std::string reason = ltViolation(problem, status);
        if (!reason.empty())
          return refuse(call, status, reason);
        get(desc, Kind::Desc)->chosenFor = problem.bias;
        size_t most = get(preference, Kind::Preference)->workspace;
        line(call + (" " + describe(problem)) +
             " workspace=" + std::to_string(most));
        for (int i = 0; i < asked && i < 4; ++i) {
          out[i] = {};
          out[i].algo.data[0] = uint64_t(i) + 1;
          out[i].workspaceSize = most;
          ++*found;
        }
        return BlasSuccess;
      };
}

std::string RecordingDriver::checkEpilogueBuffers(const Object &desc,
                                                  const LtProblem &p) const {
  for (const void *number : {p.dScale, p.amax})
    if (number && !covers(onDevice(number), sizeof(float)))
      return "a scale or amax of an FP8 result is not on the device";
  if (p.aux && !covers(onDevice(p.aux), ltAuxBytes(p)))
    return "the aux buffer is not on the device";
  if (!p.bias)
    return "";
  if (!covers(onDevice(p.bias), size_t(p.m()) * size_t(bytesOf(p.biasType))))
    return "the bias is not on the device";
  // The heuristic chooses an algorithm by the alignment of the address in the
  // descriptor.
  uintptr_t seen = reinterpret_cast<uintptr_t>(desc.chosenFor);
  if (reinterpret_cast<uintptr_t>(p.bias) % (seen & (~seen + 1)))
    return "the bias is less aligned than when the algorithm was chosen";
  return "";
}

void RecordingDriver::bindMatmul() {
  cublasLtMatmul = [this](BlasHandle handle, MatmulDesc desc, const void *alpha,
                          const void *a, MatrixLayout aLayout, const void *b,
                          MatrixLayout bLayout, const void *beta, const void *c,
                          MatrixLayout cLayout, void *d, MatrixLayout dLayout,
                          const MatmulAlgo *algo, void *workspace, size_t bytes,
                          StreamHandle stream) {
    const char *call = "cublasLtMatmul";
    if (fails(call) || !get(handle, Kind::Blas) || !get(stream, Kind::Stream) ||
        !algo || algo->data[0] == 0)
      return BlasExecutionFailed;
    LtProblem p = problemOf(desc, aLayout, bLayout, cLayout, dLayout);
    BlasStatus status = BlasSuccess;
    std::string reason = ltViolation(p, status);
    if (reason.empty()) {
      status = BlasInvalidValue;
      reason = checkLtAddresses(p, {a, b, d});
    }
    auto sizesOf = [this](MatrixLayout layout) {
      const LtSide &side = get(layout, Kind::Layout)->side;
      return std::array{side.rows, side.cols, uint64_t(side.leading)};
    };
    // The library takes C in D's memory only if both have one layout.
    const void *wanted = p.cType ? nullptr : d;
    if (reason.empty() && (c != wanted || sizesOf(cLayout) != sizesOf(dLayout)))
      reason =
          p.cType ? "C of another type than D must be null" : "C must be D";
    if (reason.empty() && !c && *static_cast<const float *>(beta) != 0)
      reason = "C is null, and beta is not zero";
    if (reason.empty() &&
        (!workspace || reinterpret_cast<uintptr_t>(workspace) % 256 ||
         !covers(onDevice(workspace), bytes)))
      reason =
          "the workspace is missing, too small or not at a multiple of 256";
    for (const void *address : {a, b, static_cast<const void *>(d)})
      if (reason.empty() && at(address).empty())
        reason = "an operand is not on the device";
    const std::pair<const void *, size_t> scales[] = {
        {p.aScale, ltScaleBytes(p.aMode, p.m(), p.k())},
        {p.bScale, ltScaleBytes(p.bMode, p.n(), p.k())}};
    for (auto [scale, size] : scales)
      if (reason.empty() && scale && !covers(onDevice(scale), size))
        reason = "a scale is not on the device";
    if (reason.empty())
      reason = checkEpilogueBuffers(*get(desc, Kind::Desc), p);
    if (!reason.empty())
      return refuse(call, status, reason);
    // The third candidate is the fastest.
    clock += algo->data[0] == 3 ? 1e-4 : 3e-4;
    auto places = isFP8(p.a.type)
                      ? " a_scale=" + at(p.aScale) + " b_scale=" + at(p.bScale)
                      : std::string();
    if (p.dScale)
      places += " d_scale=" + at(p.dScale);
    if (p.amax)
      places += " amax=" + at(p.amax);
    auto bias = p.bias ? " bias=" + at(p.bias) : std::string();
    if (p.aux)
      bias += " aux=" + at(p.aux);
    auto number = [](const void *value) {
      char text[32];
      // All digits, since alphas contain products of scales.
      (void)std::snprintf(text, sizeof(text), "%.9g",
                          double(*static_cast<const float *>(value)));
      return std::string(text);
    };
    Status issued =
        work(std::string(call) + " a=" + at(a) + " b=" + at(b) + " d=" + at(d) +
                 places + " alpha=" + number(alpha) + " beta=" + number(beta) +
                 bias + " | " + describe(p),
             stream);
    return issued == Success ? BlasSuccess : BlasExecutionFailed;
  };
}
