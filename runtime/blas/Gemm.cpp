#include "blas/Gemm.h"

#include <algorithm>
#include <cblas.h>
#include <climits>

using namespace scalify::rt;

int64_t GemmShape::batchCount() const {
  int64_t count = 1;
  for (const BatchDim &dim : batch)
    count *= dim.n;
  return count;
}

uint64_t GemmShape::flops() const {
  return 2 * static_cast<uint64_t>(m) * static_cast<uint64_t>(n) *
         static_cast<uint64_t>(k) * static_cast<uint64_t>(batchCount());
}

bool GemmShape::lastElement(int operand, int64_t &last) const {
  int64_t rows = operand == 1 ? k : m;
  int64_t cols = operand == 0 ? k : n;
  const Strides &strides = operand == 0 ? a : operand == 1 ? b : c;
  last = -1;
  int64_t count = 1;
  for (const BatchDim &dim : batch)
    if (__builtin_mul_overflow(count, dim.n, &count))
      return false;
  if (rows == 0 || cols == 0 || count == 0)
    return true;
  int64_t sum = 0;
  auto reach = [&](int64_t extent, int64_t stride) {
    int64_t step;
    return !__builtin_mul_overflow(extent - 1, stride, &step) &&
           !__builtin_add_overflow(sum, step, &sum);
  };
  if (!reach(rows, strides.row) || !reach(cols, strides.col))
    return false;
  for (const BatchDim &dim : batch)
    if (!reach(dim.n, operand == 0 ? dim.a : operand == 1 ? dim.b : dim.c))
      return false;
  last = sum;
  return true;
}

int64_t GemmPlan::tasks() const {
  return tilesM * tilesN * ((batches - 1) / batchesPerTask + 1);
}

namespace {
/// BLAS's view of a row-major `rows` x `cols` operand: transposed or not, and
/// the leading dimension. A stride along an extent of 1 means nothing.
bool asBlas(int64_t rows, int64_t cols, Strides strides, bool &transposed,
            int64_t &leading) {
  transposed = false;
  if (cols <= 1 || strides.col == 1) {
    leading = rows <= 1 ? std::max<int64_t>(cols, 1) : strides.row;
    return leading >= std::max<int64_t>(cols, 1);
  }
  transposed = true;
  leading = strides.col;
  return (rows <= 1 || strides.row == 1) &&
         leading >= std::max<int64_t>(rows, 1);
}

std::string strideError(char operand, Strides strides) {
  return std::string("operand ") + operand + " has strides [" +
         std::to_string(strides.row) + "," + std::to_string(strides.col) +
         "], and BLAS needs one of them to be 1 and the other to step over a "
         "whole row; copy the operand first";
}

/// Tiles by shape alone. Wide tiles reuse packed panels, but a product needs
/// enough tasks for the cores: aim at 32 and stop at 64 x 128 elements.
void chooseTiles(GemmPlan &plan) {
  constexpr int64_t wantedTasks = 32;
  constexpr int64_t leastM = 64, leastN = 128;
  // Below about 2 MFLOP a task's hand-out and packing cost show.
  constexpr double leastWork = 2e6;
  double work = 2.0 * double(plan.m) * double(plan.n) * double(plan.k);
  plan.tileM = std::max<int64_t>(plan.m, 1);
  plan.tileN = std::max<int64_t>(plan.n, 1);
  auto tiles = [](int64_t extent, int64_t tile) {
    return (extent + tile - 1) / tile;
  };
  auto halve = [](int64_t extent) { return ((extent + 1) / 2 + 15) / 16 * 16; };
  for (;;) {
    int64_t count = tiles(plan.m, plan.tileM) * tiles(plan.n, plan.tileN);
    if (count * plan.batches >= wantedTasks ||
        work / double(count) < 2 * leastWork)
      break;
    if (plan.tileM >= plan.tileN && plan.tileM > leastM)
      plan.tileM = std::max(halve(plan.tileM), leastM);
    else if (plan.tileN > leastN)
      plan.tileN = std::max(halve(plan.tileN), leastN);
    else if (plan.tileM > leastM)
      plan.tileM = std::max(halve(plan.tileM), leastM);
    else
      break;
  }
  plan.tilesM = tiles(plan.m, plan.tileM);
  plan.tilesN = tiles(plan.n, plan.tileN);
  double perBatch =
      work / double(std::max<int64_t>(plan.tilesM * plan.tilesN, 1));
  int64_t fit = perBatch > 0 ? int64_t(leastWork / perBatch) : plan.batches;
  int64_t share = (plan.batches - 1) / wantedTasks + 1;
  plan.batchesPerTask = std::clamp<int64_t>(fit, 1, share);
}

/// Tiles are whole problems to BLAS, so this must run before any other call of
/// the process uses the library's own threads.
struct SingleThreadedBlas {
  SingleThreadedBlas() { openblas_set_num_threads(1); }
};
} // namespace

std::string scalify::rt::planGemm(const GemmShape &shape, GemmPlan &plan) {
  GemmShape s = shape;
  bool transC = false;
  if (!asBlas(s.m, s.n, s.c, transC, plan.ldc))
    return strideError('c', s.c);
  plan.swapped = transC;
  if (transC) {
    std::swap(s.m, s.n);
    std::swap(s.a, s.b);
    std::swap(s.a.row, s.a.col);
    std::swap(s.b.row, s.b.col);
  }
  plan.m = s.m;
  plan.n = s.n;
  plan.k = s.k;
  plan.batches = s.batchCount();
  if (!asBlas(s.m, s.k, s.a, plan.transA, plan.lda))
    return strideError(transC ? 'b' : 'a', transC ? shape.b : shape.a);
  if (!asBlas(s.k, s.n, s.b, plan.transB, plan.ldb))
    return strideError(transC ? 'a' : 'b', transC ? shape.a : shape.b);
  for (int64_t size :
       {s.m, s.n, s.k, plan.lda, plan.ldb, plan.ldc, plan.batches})
    if (size > INT_MAX)
      return "extent or stride " + std::to_string(size) +
             " does not fit BLAS's 32-bit integers";
  if (plan.batches > 0)
    chooseTiles(plan);
  return "";
}

void scalify::rt::runGemmTask(const GemmShape &shape, const GemmPlan &plan,
                              const float *a, const float *b, float *c,
                              int64_t task) {
  static SingleThreadedBlas once;
  int64_t tileN = task % plan.tilesN;
  int64_t tileM = task / plan.tilesN % plan.tilesM;
  int64_t first = task / plan.tilesN / plan.tilesM * plan.batchesPerTask;
  int64_t last = std::min(first + plan.batchesPerTask, plan.batches);
  int64_t i = tileM * plan.tileM, j = tileN * plan.tileN;
  int64_t rows = std::min(plan.tileM, plan.m - i);
  int64_t cols = std::min(plan.tileN, plan.n - j);
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
    const float *left = plan.swapped ? b + at[1] : a + at[0];
    const float *right = plan.swapped ? a + at[0] : b + at[1];
    left += plan.transA ? i : i * plan.lda;
    right += plan.transB ? j * plan.ldb : j;
    cblas_sgemm(CblasRowMajor, plan.transA ? CblasTrans : CblasNoTrans,
                plan.transB ? CblasTrans : CblasNoTrans, int(rows), int(cols),
                int(plan.k), shape.alpha, left, int(plan.lda), right,
                int(plan.ldb), shape.beta, c + at[2] + i * plan.ldc + j,
                int(plan.ldc));
  }
}

std::string scalify::rt::blasDescription() { return openblas_get_config(); }
