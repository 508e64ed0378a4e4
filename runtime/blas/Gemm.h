// Strided, batched f32 matrix products from single-threaded BLAS calls.
//
// A product is split into tiles by its shape alone, and each tile is one BLAS
// call on one thread: the bits of the result are the same for every thread
// count. docs/rationale/cpu-gemm.md explains the choice of library and tiles.
#ifndef SCALIFY_RUNTIME_BLAS_GEMM_H
#define SCALIFY_RUNTIME_BLAS_GEMM_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace scalify::rt {

/// Returns a / b, rounded up.
inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

/// How a product is cut into tiles. Libraries differ in what they read and
/// write best: oneDNN's fastest products of BF16 write whole rows. A product
/// that is itself one task of many has one tile. Blocks, of rows and columns,
/// are for kernels of which no cut changes a bit: those for AMX take them in
/// place of whole rows.
enum class Tiles { Any, WholeRows, Blocks, One };

/// Plans the product. Returns "", or why `shape` cannot run. BLAS needs one
/// unit stride in each operand, and extents that fit its 32-bit integers. The
/// number of `threads` may choose the rows of tiles of whole rows, and blocks,
/// of which no bit depends.
std::string planGemm(const GemmShape &shape, GemmPlan &plan,
                     Tiles tiles = Tiles::Any, int threads = 1);

/// A tile of one batch index: its extents, and its first elements in the left
/// and the right operand after the swap, and in C.
struct GemmTile {
  int64_t rows = 0, cols = 0;
  int64_t left = 0, right = 0, c = 0;
  bool isLastRow = false, isLastCol = false;
};

/// Calls `fn(tile)` for the tiles of one task, in [0, plan.tasks()).
template <typename Fn>
void forEachTile(const GemmShape &shape, const GemmPlan &plan, int64_t task,
                 Fn &&fn) {
  int64_t tileN = task % plan.tilesN;
  int64_t tileM = task / plan.tilesN % plan.tilesM;
  int64_t first = task / plan.tilesN / plan.tilesM * plan.batchesPerTask;
  int64_t last = std::min(first + plan.batchesPerTask, plan.batches);
  int64_t i = tileM * plan.tileM, j = tileN * plan.tileN;
  GemmTile tile;
  tile.rows = std::min(plan.tileM, plan.m - i);
  tile.cols = std::min(plan.tileN, plan.n - j);
  tile.isLastRow = tileM == plan.tilesM - 1;
  tile.isLastCol = tileN == plan.tilesN - 1;
  for (int64_t batch = first; batch < last; ++batch) {
    int64_t at[3] = {0, 0, 0};
    int64_t rest = batch;
    for (size_t d = shape.batch.size(); d-- > 0;) {
      const BatchDim &dim = shape.batch[d];
      int64_t index = rest % dim.n;
      rest /= dim.n;
      at[0] += index * dim.a;
      at[1] += index * dim.b;
      at[2] += index * dim.c;
    }
    tile.left = at[plan.swapped ? 1 : 0] + (plan.transA ? i : i * plan.lda);
    tile.right = at[plan.swapped ? 0 : 1] + (plan.transB ? j * plan.ldb : j);
    tile.c = at[2] + i * plan.ldc + j;
    fn(tile);
  }
}

/// Computes one task's tiles in F32. `task` is in [0, plan.tasks()).
void runGemmTask(const GemmShape &shape, const GemmPlan &plan, const float *a,
                 const float *b, float *c, int64_t task);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_BLAS_GEMM_H
