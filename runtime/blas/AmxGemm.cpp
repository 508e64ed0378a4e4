#include "blas/AmxGemm.h"
#include "blas/AmxTiles.h"
#include "support/Error.h"
#include "support/ThreadMemory.h"

#include <algorithm>

using namespace scalify::rt;
using namespace scalify::rt::amx;

namespace {
class AmxGemm : public NarrowGemm {
public:
  AmxGemm(const GemmShape &shape, Tiles tiles, int threads)
      : NarrowGemm(shape, ProductUnit::AMX,
                   tiles == Tiles::WholeRows ? Tiles::Blocks : tiles, threads),
        isTransposed(plan.transA && plan.n <= kFewColumns && plan.n < plan.m &&
                     shape.beta == 0.0f),
        depth(chooseDepth()),
        width(std::clamp(
            kPackedElements / depth / kPanel * kPanel, kPanel,
            ceilDiv(isTransposed ? plan.tileM : plan.tileN, kPanel) * kPanel)) {
  }

  void reserve() const override { packed(); }

  void run(int64_t task, const Operands &operands) const override {
    Session session;
    Operand left{plan.swapped ? operands.b : operands.a, plan.lda, plan.transA};
    Operand right{plan.swapped ? operands.a : operands.b, plan.ldb,
                  plan.transB};
    forEachTile(shape, plan, task, [&](const GemmTile &tile) {
      Operand a = left, b = right;
      a.data += tile.left;
      b.data += tile.right;
      if (isTransposed)
        multiply(tile.cols, tile.rows, b.transposed(), a.transposed(),
                 operands.c + tile.c);
      else
        multiply(tile.rows, tile.cols, a, b, operands.c + tile.c);
    });
  }

private:
  /// Returns as many elements of K as a panel has that stays in the first
  /// cache. Rows that are read where they lie are read in one go. No bit
  /// depends on it: sums go on from where they were, in whole steps. With a
  /// beta, which no plan of the compiler has, K is one block, and a deep one
  /// leaves the caches.
  int64_t chooseDepth() const {
    constexpr int64_t deep = 512;
    int64_t most = shape.beta != 0.0f || isTransposed ? plan.k
                   : plan.n <= kFewColumns ? kPackedElements / kFewColumns
                                           : deep;
    int64_t blocks = ceilDiv(plan.k, most);
    return ceilDiv(ceilDiv(plan.k, blocks), kDepth) * kDepth;
  }
  /// Elements of the right operand that are packed at a time: 1 MiB, half of
  /// the second cache of a processor with AMX.
  static constexpr int64_t kPackedElements = 512 * 1024;

  /// Memory of the calling thread, for a panel of the left operand and a block
  /// of the right one.
  uint16_t *packed() const {
    size_t elements = static_cast<size_t>((kPanel + width) * depth);
    return reinterpret_cast<uint16_t *>(threadMemory(2 * elements));
  }

  /// Computes a tile of the result, block by block of the right operand.
  void multiply(int64_t rows, int64_t cols, const Operand &a, const Operand &b,
                float *c) const {
    for (int64_t k = 0; k < plan.k; k += depth) {
      Update update{shape.alpha, shape.beta,          plan.ldc,
                    k == 0,      k + depth >= plan.k, isTransposed};
      int64_t count = std::min(depth, plan.k - k);
      for (int64_t col = 0; col < cols; col += width)
        multiplyBlock(rows, std::min(width, cols - col), count, a.at(0, k),
                      b.at(k, col), at(c, 0, col), update);
    }
  }

  void multiplyBlock(int64_t rows, int64_t cols, int64_t count,
                     const Operand &a, const Operand &b, float *c,
                     const Update &update) const {
    int64_t steps = ceilDiv(count, kDepth), panel = steps * kDepth * kPanel;
    uint16_t *left = packed(), *right = left + kPanel * depth;
    packRight(b, count, cols, right);
    for (int64_t row = 0; row < rows; row += kPanel) {
      int64_t height = std::min(kPanel, rows - row);
      Panel from = packLeft(a.at(row, 0), height, count, cols, left);
      for (int64_t col = 0; col < cols; col += kPanel)
        multiplyPanel(from, right + col / kPanel * panel, steps, height,
                      std::min(kPanel, cols - col), at(c, row, col), update);
    }
  }

  float *at(float *c, int64_t row, int64_t col) const {
    return isTransposed ? c + col * plan.ldc + row : c + row * plan.ldc + col;
  }

  /// Computes columns of the result as rows: a left operand in columns would
  /// be transposed for few columns.
  bool isTransposed;
  int64_t depth, width;
};
} // namespace

std::unique_ptr<NarrowGemm> scalify::rt::makeAmxGemm(const GemmShape &shape,
                                                     Tiles tiles, int threads) {
  if (!isUsable())
    unsupported(
        "products on AMX need its registers, which this process "
        "does not have; SCALIFY_CPU_ISA=avx512_bf16 multiplies without them");
  return std::make_unique<AmxGemm>(shape, tiles, threads);
}
