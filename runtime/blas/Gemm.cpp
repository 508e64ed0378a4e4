#include "blas/Gemm.h"
#include "blas/Blas.h"

#include <algorithm>
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
/// Computes BLAS's view of a row-major `rows` x `cols` operand: whether it is
/// transposed, and the leading dimension. The stride of an extent of 1 is
/// ignored.
bool asBlas(int64_t rows, int64_t cols, Strides strides, bool &transposed,
            int64_t &leading) {
  transposed = false;
  leading = std::max<int64_t>(cols, 1);
  if (rows == 0 || cols == 0)
    return true;
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

/// Returns the modelled time of a product in tiles, summed over several numbers
/// of cores. A call on a small tile packs more per product: measured, its time
/// grows by about 32 / extent for either extent. The last row and column of
/// tiles count in full.
double modelledTime(const GemmPlan &plan, int64_t tileM, int64_t tileN) {
  double work = double(tileM) * double(tileN) * double(plan.k) *
                (1 + 32.0 / double(tileM) + 32.0 / double(tileN));
  int64_t tasks =
      ceilDiv(plan.m, tileM) * ceilDiv(plan.n, tileN) * plan.batches;
  double time = 0;
  for (int cores : {1, 2, 4, 8})
    time += double(ceilDiv(tasks, cores)) * double(cores) * work;
  return time;
}

/// Chooses whole rows, or 2,048 columns of wider ones, whose right operand fits
/// no cache, and as many rows for this machine's threads. oneDNN sums an
/// element in an order that the columns and K decide, so rows change no bit.
/// Measured, a call's time grows by about 16 / extent for either extent.
void chooseRows(GemmPlan &plan, int threads) {
  constexpr int64_t widest = 4096, piece = 2048, fewest = 32, fewestLast = 16;
  plan.tileN = std::max<int64_t>(plan.n > widest ? piece : plan.n, 1);
  double best = 0;
  for (int64_t parts = 1; parts <= 256; parts *= 2) {
    int64_t rows = ceilDiv(ceilDiv(plan.m, parts), 16) * 16;
    if (parts > 1 && rows < fewest)
      break;
    rows = std::min(rows, plan.m);
    // A single row is another kernel's, which sums in its own order.
    if (int64_t last = plan.m % rows; last != 0 && last < fewestLast)
      continue;
    int64_t tasks =
        ceilDiv(plan.m, rows) * ceilDiv(plan.n, plan.tileN) * plan.batches;
    auto rounds = double(ceilDiv(tasks, threads));
    double time = rounds * double(rows) *
                  (1 + 16.0 / double(rows) + 16.0 / double(plan.tileN));
    // With one task a thread, all wait for the slowest.
    time *= 1 + 1 / (32 * rounds);
    if (parts > 1 && time >= best)
      continue;
    best = time;
    plan.tileM = rows;
  }
}

/// Chooses tiles by shape alone: the best by the model over small and larger
/// machines.
void chooseShares(GemmPlan &plan) {
  constexpr int64_t smallest = 128;
  double best = modelledTime(plan, plan.tileM, plan.tileN);
  for (int64_t partsM = 1; partsM <= 32; partsM *= 2)
    for (int64_t partsN = 1; partsN <= 32; partsN *= 2) {
      // Multiples of 16 keep every tile but the last on full vector kernels.
      int64_t tileM = ceilDiv(ceilDiv(plan.m, partsM), 16) * 16;
      int64_t tileN = ceilDiv(ceilDiv(plan.n, partsN), 16) * 16;
      if (tileM == 0 || tileN == 0 || (partsM > 1 && tileM < smallest) ||
          (partsN > 1 && tileN < smallest))
        continue;
      double time = modelledTime(plan, tileM, tileN);
      if (time < best) {
        best = time;
        plan.tileM = tileM;
        plan.tileN = tileN;
      }
    }
}

/// Chooses the grid of tasks that ends first on this machine's threads. A task
/// packs its part of both operands, which takes as long as 16 more columns and
/// 64 more rows.
void chooseBlocks(GemmPlan &plan, int threads) {
  constexpr int64_t panel = 32;
  double best = 0;
  for (int64_t partsM = 1; partsM <= 256; partsM *= 2)
    for (int64_t partsN = 1; partsN <= 256; partsN *= 2) {
      int64_t rows = ceilDiv(ceilDiv(plan.m, partsM), panel) * panel;
      int64_t cols = ceilDiv(ceilDiv(plan.n, partsN), panel) * panel;
      int64_t tasks =
          ceilDiv(plan.m, rows) * ceilDiv(plan.n, cols) * plan.batches;
      auto rounds = double(ceilDiv(tasks, threads));
      double time = rounds * double(rows + 64) * double(cols + 16);
      // With one task a thread, all wait for the slowest.
      time *= 1 + 1 / (32 * rounds);
      if (best != 0 && time >= best)
        continue;
      best = time;
      plan.tileM = std::min(rows, plan.m);
      plan.tileN = std::min(cols, plan.n);
    }
}

/// Products of few rows have no whole ones.
void chooseTiles(GemmPlan &plan, Tiles tiles, int threads) {
  constexpr int64_t fewRows = 64;
  plan.tileM = std::max<int64_t>(plan.m, 1);
  plan.tileN = std::max<int64_t>(plan.n, 1);
  if (tiles == Tiles::One) {
    plan.tilesM = ceilDiv(plan.m, plan.tileM);
    plan.tilesN = ceilDiv(plan.n, plan.tileN);
    plan.batchesPerTask = plan.batches;
    return;
  }
  if (tiles == Tiles::Blocks)
    chooseBlocks(plan, threads);
  else if (tiles == Tiles::WholeRows && plan.m >= fewRows)
    chooseRows(plan, threads);
  else
    chooseShares(plan);
  plan.tilesM = ceilDiv(plan.m, plan.tileM);
  plan.tilesN = ceilDiv(plan.n, plan.tileN);
  // A task takes several small products of a batch: 2 MFLOP far outlast its
  // dispatch. At least 32 tasks remain.
  constexpr double minTaskWork = 1e6;
  constexpr int64_t minTasks = 32;
  double work = double(plan.tileM) * double(plan.tileN) * double(plan.k);
  int64_t fit =
      work > 0 && work < minTaskWork ? int64_t(minTaskWork / work) : 1;
  plan.batchesPerTask =
      std::clamp<int64_t>(fit, 1, ceilDiv(plan.batches, minTasks));
}
} // namespace

std::string scalify::rt::planGemm(const GemmShape &shape, GemmPlan &plan,
                                  Tiles tiles, int threads) {
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
    chooseTiles(plan, tiles, threads);
  return "";
}

void scalify::rt::runGemmTask(const GemmShape &shape, const GemmPlan &plan,
                              const float *a, const float *b, float *c,
                              int64_t task) {
  const Blas &blas = Blas::get();
  forEachTile(shape, plan, task, [&](const GemmTile &tile) {
    blas.sgemm(Blas::rowMajor, plan.transA ? Blas::trans : Blas::noTrans,
               plan.transB ? Blas::trans : Blas::noTrans, int(tile.rows),
               int(tile.cols), int(plan.k), shape.alpha,
               (plan.swapped ? b : a) + tile.left, int(plan.lda),
               (plan.swapped ? a : b) + tile.right, int(plan.ldb), shape.beta,
               c + tile.c, int(plan.ldc));
  });
}
