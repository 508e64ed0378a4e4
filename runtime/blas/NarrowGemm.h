// Products of BF16 operands with an F32 result.
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

  /// Returns the product for as many threads, whose number changes no bit, on
  /// productUnit(), or in F32 if it is too small for a call on the unit.
  /// `shape` must outlive it, and be one that planGemm() accepts.
  static std::unique_ptr<NarrowGemm> make(const GemmShape &shape,
                                          int threads = 1);
  /// Returns the product on a unit up to productUnit(), which has been called.
  static std::unique_ptr<NarrowGemm>
  make(const GemmShape &shape, ProductUnit unit, Tiles tiles, int threads = 1);
  /// Returns a product of one task, on the unit that make() would choose.
  static std::unique_ptr<NarrowGemm> makeTask(const GemmShape &shape);

  ProductUnit getUnit() const { return unit; }
  int64_t tasks() const { return plan.tasks(); }

  /// The operands of one execution, which no task changes.
  struct Operands {
    const uint16_t *a, *b;
    float *c;
    /// A number that no other execution in the process has.
    uint64_t execution = nextExecution();
  };
  /// Computes one task, in [0, tasks()). May be called from several threads at
  /// once.
  virtual void run(int64_t task, const Operands &operands) const = 0;
  /// Allocates what run() needs on the calling thread, once for the thread.
  virtual void reserve() const = 0;

protected:
  NarrowGemm(const GemmShape &shape, ProductUnit unit, Tiles tiles,
             int threads);

  const GemmShape &shape;
  ProductUnit unit;
  GemmPlan plan;

private:
  static uint64_t nextExecution();
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_NARROWGEMM_H
