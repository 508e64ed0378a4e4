// What cuBLASLt takes on Hopper, as its manual has it: the runtime plans
// products by it, a recording checks them, and an error quotes it.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H

#include "device/cuda/Types.h"

#include <array>
#include <optional>
#include <string>

namespace scalify::rt::cuda {

/// One matrix in memory, column major.
struct LtSide {
  DataType type = R32F;
  uint64_t rows = 0, cols = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batchStride = 0; // elements
};

/// D = epilogue(alpha * op(A) * op(B) + beta * C), with C in D's memory. A bias
/// has an element for each row of D. Of FP8 D is that times its scale,
/// saturated; amax is the largest magnitude before.
struct LtProblem {
  Operation opA = OpN, opB = OpN;
  LtSide a, b, d;
  std::optional<DataType> cType; // if that is not D's; C is not read then
  ComputeType compute = Compute32F;
  DataType scaleType = R32F;
  bool fastAccumulation = false;
  ScaleMode aMode = ScaleScalar, bMode = ScaleScalar;
  const void *aScale = nullptr, *bScale = nullptr, *dScale = nullptr;
  const void *amax = nullptr;
  LtEpilogue epilogue = EpilogueDefault;
  const void *bias = nullptr;
  DataType biasType = R32F; // where there is a bias
  /// What a GELU reads, of D's type, or one bit an element where a ReLU's sum
  /// was above 0: stored in the forward, read by the gradient.
  const void *aux = nullptr;
  int64_t auxLeading = 0, auxBatchStride = 0; // elements or bits

  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.cols; }
  uint64_t k() const { return opA == OpN ? a.cols : a.rows; }
};

/// The first version, as cublasLtGetVersion has it, of modes but the scalar.
constexpr size_t ltVersionOfModes = 120900;

/// The bytes of the scales of A (rows: m) or B (rows: n).
size_t ltScaleBytes(ScaleMode mode, uint64_t rows, uint64_t k);

/// Whether the epilogue adds a bias; whether it stores or reads what belongs to
/// a gradient, and whether that is bits.
bool addsBias(LtEpilogue epilogue);
bool hasAux(LtEpilogue epilogue);
bool hasMask(LtEpilogue epilogue);
/// The bytes from the first element or bit of `aux` to the last.
size_t ltAuxBytes(const LtProblem &problem);

/// The type of a bias that a product takes, by the tables of types in the
/// manual's section on cublasLtMatmul.
DataType ltBiasType(DataType operand, DataType result);

bool isFP8(DataType type);
int64_t bytesOf(DataType type);
/// "f8E4M3FN".
const char *nameOf(DataType type);

/// Why cuBLASLt would refuse the product, or "". `status` says how.
std::string ltViolation(const LtProblem &problem, BlasStatus &status);

/// The same for where operands, scales and bias lie: FP8 needs multiples of 16
/// bytes, and a bias is at one always.
std::string ltMisplaced(const LtProblem &problem,
                        std::array<const void *, 3> addresses);

/// "TN m=64 n=32 k=128 a=f8E4M3FN ld=128 ...".
std::string describe(const LtProblem &problem);

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_LTCONTRACT_H
