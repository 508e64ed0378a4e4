// The constraints of cuBLASLt on Hopper, from its manual: the runtime plans
// products by them, the recording checks them, and errors quote them.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H

#include "device/cuda/Types.h"

#include <array>
#include <optional>
#include <string>

namespace scalify::rt::cuda {

/// A matrix in memory, column major.
struct LtSide {
  DataType type = R32F;
  uint64_t rows = 0, cols = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batchStride = 0; // elements
};

/// D = epilogue(alpha * op(A) * op(B) + beta * C), with C in D's memory. A bias
/// has an element for each row of D. An FP8 result D is multiplied by its scale
/// and saturated; amax is the largest magnitude before that.
struct LtProblem {
  Operation opA = OpN, opB = OpN;
  LtSide a, b, d;
  std::optional<DataType> cType; // if it differs from D's; C is not read then
  ComputeType compute = Compute32F;
  DataType scaleType = R32F;
  bool fastAccumulation = false;
  ScaleMode aMode = ScaleScalar, bMode = ScaleScalar;
  const void *aScale = nullptr, *bScale = nullptr, *dScale = nullptr;
  const void *amax = nullptr;
  LtEpilogue epilogue = EpilogueDefault;
  const void *bias = nullptr;
  DataType biasType = R32F; // if there is a bias
  /// The operand of a GELU, in D's type, or one bit per element, set if the sum
  /// before a ReLU was above 0. Stored in the forward, read by the gradient.
  const void *aux = nullptr;
  int64_t auxLeading = 0, auxBatchStride = 0; // elements or bits

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.cols; }
  uint64_t k() const { return opA == OpN ? a.cols : a.rows; }
};

/// The first version, in cublasLtGetVersion's encoding, with other modes than
/// scalar.
constexpr size_t ltVersionOfModes = 120900;

/// Returns the bytes of the scales of A (rows: m) or B (rows: n).
size_t ltScaleBytes(ScaleMode mode, uint64_t rows, uint64_t k);

/// True if the epilogue adds a bias; if it stores or reads `aux` for a
/// gradient; if `aux` is a bit mask.
bool addsBias(LtEpilogue epilogue);
bool hasAux(LtEpilogue epilogue);
bool hasMask(LtEpilogue epilogue);
/// Returns the bytes from the first element or bit of `aux` to the last.
size_t ltAuxBytes(const LtProblem &problem);

/// Returns the bias type of a product, by the type tables in the manual's
/// section on cublasLtMatmul.
DataType ltBiasType(DataType operand, DataType result);

bool isFP8(DataType type);
int64_t bytesOf(DataType type);
/// "f8E4M3FN".
const char *nameOf(DataType type);

/// Returns why cuBLASLt would refuse the product, or "". Sets `status` to its
/// status.
std::string ltViolation(const LtProblem &problem, BlasStatus &status);

/// Returns why cuBLASLt would refuse the addresses of operands, scales or bias,
/// or "". FP8 operands and every bias need multiples of 16 bytes.
std::string checkLtAddresses(const LtProblem &problem,
                             std::array<const void *, 3> addresses);

/// "TN m=64 n=32 k=128 a=f8E4M3FN ld=128 ...".
std::string describe(const LtProblem &problem);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H
