// Strided, batched f32 matrix products from single-threaded BLAS calls.
//
// A product is split into tiles by its shape alone, and each tile is one BLAS
// call on one thread: the bits of the result are the same for every thread
// count. docs/rationale/cpu-gemm.md explains the choice of library and tiles.
#ifndef SCALIFY_RUNTIME_BLAS_GEMM_H
#define SCALIFY_RUNTIME_BLAS_GEMM_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace scalify::rt {

/// Row and column stride of a matrix, in elements.
struct Strides {
  int64_t row = 0;
  int64_t col = 0;
};

/// One batch dimension: its extent and the stride of each operand.
struct BatchDim {
  int64_t n = 1;
  int64_t a = 0, b = 0, c = 0;
};

/// Computes C = alpha * A * B + beta * C for every index of the batch.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  Strides a, b, c;
  std::vector<BatchDim> batch;
  float alpha = 1.0f;
  float beta = 0.0f;

  int64_t batchCount() const;
  /// Multiplications and additions.
  uint64_t flops() const;
  /// Computes the largest element index that an operand touches, or -1 if it
  /// touches none. Returns false on overflow. Operand 0, 1, 2: a, b, c.
  bool lastElement(int operand, int64_t &last) const;
};

/// A GEMM prepared for BLAS: strides mapped to transpositions, tiles chosen.
struct GemmPlan {
  bool swapped = false; // C is column major: compute C' = B' A'
  bool transA = false, transB = false;
  int64_t m = 0, n = 0, k = 0; // after the swap
  int64_t lda = 1, ldb = 1, ldc = 1;
  int64_t tileM = 1, tileN = 1;
  int64_t tilesM = 0, tilesN = 0;
  int64_t batches = 1;
  int64_t batchesPerTask = 1;

  int64_t tasks() const;
};

/// Plans the product. Returns "", or why `shape` cannot run. BLAS needs one
/// unit stride in each operand, and extents that fit its 32-bit integers.
std::string planGemm(const GemmShape &shape, GemmPlan &plan);

/// Computes one task's tiles. `task` is in [0, plan.tasks()).
void runGemmTask(const GemmShape &shape, const GemmPlan &plan, const float *a,
                 const float *b, float *c, int64_t task);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_GEMM_H
