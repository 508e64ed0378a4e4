// Products of BF16 operands with an F32 result, in the tiles and tasks of the
// same product in F32.
//
// E4M3 and E5M2 are exact in BF16 and products of BF16 are exact in F32, so a
// unit for BF16 computes products of FP8 too. It sums in F32, in an order that
// depends on the shape and the unit alone. It takes subnormal operands and
// results for zero: no FP8 number is subnormal in BF16.
#ifndef SCALIFY_RUNTIME_BLAS_NARROWGEMM_H
#define SCALIFY_RUNTIME_BLAS_NARROWGEMM_H

#include "blas/Gemm.h"
#include "blas/ProductUnit.h"

#include <memory>

namespace scalify::rt {

class NarrowGemm {
public:
  virtual ~NarrowGemm() = default;

  /// Computes one task of the plan, in [0, plan.tasks()). May be called from
  /// several threads at once.
  virtual void run(int64_t task, const uint16_t *a, const uint16_t *b,
                   float *c) const = 0;

  /// Returns productUnit(), or F32 for tiles too small for a call on the unit.
  static ProductUnit chooseUnit(const GemmPlan &plan);

  /// Returns the product for a unit up to productUnit(). `shape` and `plan`
  /// must outlive it.
  static std::unique_ptr<NarrowGemm>
  make(const GemmShape &shape, const GemmPlan &plan, ProductUnit unit);
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_NARROWGEMM_H
