#include "blas/NarrowGemm.h"
#include "blas/AmxGemm.h"
#include "blas/Blas.h"
#include "blas/Dnnl.h"
#include "support/ThreadMemory.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

using namespace scalify::rt;

namespace {
//===----------------------------------------------------------------------===//
// In F32
//===----------------------------------------------------------------------===//

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
void widenRow(const uint16_t *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word = uint32_t(from[i]) << 16;
    std::memcpy(to + i, &word, sizeof(word));
  }
}

/// Widens a matrix of `rows` rows into `to`, without gaps.
void widen(const uint16_t *from, int64_t stride, int64_t rows, int64_t cols,
           float *to) {
  // A matrix without elements may have no memory.
  if (stride == cols || rows == 1 || cols == 0)
    return widenRow(from, to, rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    widenRow(from + row * stride, to + row * cols, cols);
}

/// One operand of a tile in F32. Tiles that follow each other on a thread often
/// read the same one, such as a whole right operand.
class WidenedTile {
public:
  void reserve(int64_t size) {
    if (memory.size() < static_cast<size_t>(size))
      memory.resize(static_cast<size_t>(size));
  }

  const float *get(const uint16_t *from, int64_t stride, int64_t rows,
                   int64_t cols, uint64_t execution) {
    if (execution != of || from != source || rows != numRows ||
        cols != numCols) {
      reserve(rows * cols);
      widen(from, stride, rows, cols, memory.data());
      of = execution;
      source = from;
      numRows = rows;
      numCols = cols;
    }
    return memory.data();
  }

private:
  std::vector<float> memory;
  uint64_t of = 0;
  const uint16_t *source = nullptr;
  int64_t numRows = 0, numCols = 0;
};

/// Widens the operands of each tile for OpenBLAS.
class WidenedGemm : public NarrowGemm {
public:
  // Whole rows of a wide right operand would not fit the cache once widened.
  WidenedGemm(const GemmShape &shape, Tiles tiles)
      : NarrowGemm(shape, ProductUnit::F32,
                   tiles == Tiles::WholeRows ? Tiles::Any : tiles, 1),
        blas(Blas::get()) {}

  void reserve() const override {
    Operand &own = ownOperands();
    own.left.reserve(plan.tileM * plan.k);
    own.right.reserve(plan.k * plan.tileN);
  }

  void run(int64_t task, const Operands &operands) const override {
    WidenedTile &lefts = ownOperands().left, &rights = ownOperands().right;
    const uint16_t *a = plan.swapped ? operands.b : operands.a;
    const uint16_t *b = plan.swapped ? operands.a : operands.b;
    forEachTile(shape, plan, task, [&](const GemmTile &tile) {
      // Rows and columns in memory.
      int64_t lda = plan.transA ? tile.rows : plan.k;
      int64_t ldb = plan.transB ? plan.k : tile.cols;
      const float *left =
          lefts.get(a + tile.left, plan.lda, plan.transA ? plan.k : tile.rows,
                    lda, operands.execution);
      const float *right =
          rights.get(b + tile.right, plan.ldb, plan.transB ? tile.cols : plan.k,
                     ldb, operands.execution);
      blas.sgemm(Blas::rowMajor, plan.transA ? Blas::trans : Blas::noTrans,
                 plan.transB ? Blas::trans : Blas::noTrans, int(tile.rows),
                 int(tile.cols), int(plan.k), shape.alpha, left,
                 std::max(int(lda), 1), right, std::max(int(ldb), 1),
                 shape.beta, operands.c + tile.c, int(plan.ldc));
    });
  }

private:
  /// Of a thread, as large as its largest tiles.
  struct Operand {
    WidenedTile left, right;
  };
  static Operand &ownOperands() {
    thread_local Operand own;
    return own;
  }

  const Blas &blas;
};

//===----------------------------------------------------------------------===//
// On AVX512-BF16
//===----------------------------------------------------------------------===//

/// A matrix in memory, of oneDNN's kind.
dnnl_memory_desc_t describe(const Dnnl &dnnl, dnnl_data_type_t type,
                            int64_t rows, int64_t cols, bool isTransposed,
                            int64_t leading) {
  dnnl_memory_desc_t result;
  dnnl_dims_t dims = {rows, cols};
  dnnl_dims_t strides = {isTransposed ? 1 : leading,
                         isTransposed ? leading : 1};
  Dnnl::check(dnnl.memoryDescInit(&result, 2, dims, type, strides),
              "memory_desc_init_by_strides");
  return result;
}

/// The product of one shape of tiles.
class TileProduct {
public:
  TileProduct(const GemmShape &shape, const GemmPlan &plan, int64_t rows,
              int64_t cols)
      : dnnl(Dnnl::get()) {
    OneThread guard;
    packed.rows = plan.transA ? plan.k : rows;
    packed.cols = plan.transA ? rows : plan.k;
    packed.stride = plan.lda;
    int64_t rightCols = plan.transB ? plan.k : cols;
    isPacked = packed.stride != packed.cols && plan.ldb == rightCols &&
               plan.ldc == cols;
    left = describe(dnnl, dnnl_bf16, rows, plan.k, plan.transA,
                    isPacked ? packed.cols : plan.lda);
    right = describe(dnnl, dnnl_bf16, plan.k, cols, plan.transB, plan.ldb);
    result = describe(dnnl, dnnl_f32, rows, cols, false, plan.ldc);
    dnnl_matmul_desc_t matmul;
    Dnnl::check(dnnl.matmulDescInit(&matmul, &left, &right, nullptr, &result),
                "matmul_desc_init");
    dnnl_primitive_attr_t attr;
    Dnnl::check(dnnl.attrCreate(&attr), "primitive_attr_create");
    dnnl.attrSetScratchpad(attr, dnnl_scratchpad_mode_user);
    if (shape.alpha != 1.0f)
      dnnl.attrSetScales(attr, 1, 0, &shape.alpha);
    if (shape.beta != 0.0f)
      addToResult(attr, shape.beta);
    dnnl_primitive_desc_t desc = nullptr;
    dnnl_status_t status =
        dnnl.descCreate(&desc, &matmul, attr, dnnl.engine, nullptr);
    dnnl.attrDestroy(attr);
    Dnnl::check(status, "primitive_desc_create");
    const dnnl_memory_desc_t *pad =
        dnnl.descQueryMd(desc, dnnl_query_scratchpad_md, 0);
    scratch = *pad;
    scratchBytes = dnnl.memoryDescGetSize(pad);
    status = dnnl.create(&primitive, desc);
    dnnl.descDestroy(desc);
    Dnnl::check(status, "primitive_create");
  }
  ~TileProduct() { dnnl.destroy(primitive); }
  TileProduct(const TileProduct &) = delete;
  TileProduct &operator=(const TileProduct &) = delete;

  void reserve() const { threadMemory(packedBytes() + scratchBytes); }

  void run(const uint16_t *a, const uint16_t *b, float *c) const {
    uint8_t *own = threadMemory(packedBytes() + scratchBytes);
    if (isPacked)
      a = pack(a, reinterpret_cast<uint16_t *>(own));
    Memory memories[] = {{dnnl, left, const_cast<uint16_t *>(a)},
                         {dnnl, right, const_cast<uint16_t *>(b)},
                         {dnnl, result, c},
                         {dnnl, scratch, own + packedBytes()}};
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memories[0].handle},
                              {DNNL_ARG_WEIGHTS, memories[1].handle},
                              {DNNL_ARG_DST, memories[2].handle},
                              {DNNL_ARG_SCRATCHPAD, memories[3].handle}};
    // Cannot fail: no memory is allocated by the library.
    dnnl.execute(primitive, dnnl.stream, 4, args);
  }

private:
  struct Memory {
    Memory(const Dnnl &dnnl, const dnnl_memory_desc_t &desc, void *address)
        : dnnl(dnnl) {
      dnnl.memoryCreate(&handle, &desc, dnnl.engine, address);
    }
    ~Memory() { dnnl.memoryDestroy(handle); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    const Dnnl &dnnl;
    dnnl_memory_t handle = nullptr;
  };

  void addToResult(dnnl_primitive_attr_t attr, float beta) const {
    dnnl_post_ops_t ops;
    Dnnl::check(dnnl.postOpsCreate(&ops), "post_ops_create");
    dnnl.postOpsAppendSum(ops, beta);
    dnnl.attrSetPostOps(attr, ops);
    dnnl.postOpsDestroy(ops);
  }

  /// Bytes of the packed operand, whole cache lines.
  size_t packedBytes() const {
    if (!isPacked)
      return 0;
    auto bytes = static_cast<size_t>(packed.rows * packed.cols) * 2;
    return (bytes + line - 1) / line * line;
  }

  const uint16_t *pack(const uint16_t *from, uint16_t *to) const {
    for (int64_t row = 0; row < packed.rows; ++row)
      std::memcpy(to + row * packed.cols, from + row * packed.stride,
                  static_cast<size_t>(packed.cols) * 2);
    return to;
  }

  static constexpr size_t line = 64;

  const Dnnl &dnnl;
  /// The left operand in memory. If it alone has gaps between its rows, they
  /// are packed: the library's faster kernels read no gaps, and its others
  /// allocate memory in each call.
  struct {
    int64_t rows = 0, cols = 0, stride = 0;
  } packed;
  bool isPacked = false;
  dnnl_memory_desc_t left, right, result, scratch;
  size_t scratchBytes = 0;
  dnnl_primitive_t primitive = nullptr;
};

class DnnlGemm : public NarrowGemm {
public:
  DnnlGemm(const GemmShape &shape, Tiles tiles, int threads)
      : NarrowGemm(shape, ProductUnit::AVX512BF16, tiles, threads) {
    int64_t rows[] = {plan.tileM, plan.m - (plan.tilesM - 1) * plan.tileM};
    int64_t cols[] = {plan.tileN, plan.n - (plan.tilesN - 1) * plan.tileN};
    for (bool lastRow : {false, true})
      for (bool lastCol : {false, true})
        if ((lastRow || plan.tilesM > 1) && (lastCol || plan.tilesN > 1))
          products[lastRow][lastCol] = std::make_unique<TileProduct>(
              shape, plan, rows[lastRow], cols[lastCol]);
  }

  void reserve() const override {
    for (const auto &row : products)
      for (const std::unique_ptr<TileProduct> &product : row)
        if (product)
          product->reserve();
  }

  void run(int64_t task, const Operands &operands) const override {
    OneThread guard;
    const uint16_t *a = plan.swapped ? operands.b : operands.a;
    const uint16_t *b = plan.swapped ? operands.a : operands.b;
    forEachTile(shape, plan, task, [&](const GemmTile &tile) {
      products[tile.isLastRow][tile.isLastCol]->run(
          a + tile.left, b + tile.right, operands.c + tile.c);
    });
  }

private:
  /// For tiles in the last row of tiles, and in the last column.
  std::unique_ptr<TileProduct> products[2][2];
};
} // namespace

uint64_t NarrowGemm::nextExecution() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

NarrowGemm::NarrowGemm(const GemmShape &shape, ProductUnit unit, Tiles tiles,
                       int threads)
    : shape(shape), unit(unit) {
  planGemm(shape, plan, tiles, threads);
}

/// Measured, OpenBLAS on widened operands is faster up to 2^16 products than a
/// call of oneDNN, and up to 2^13 than a task on AMX
/// (docs/rationale/cpu-gemm.md).
static double fewestProducts(ProductUnit unit) {
  return unit == ProductUnit::AMX ? 1 << 13 : 1 << 16;
}

static ProductUnit unitFor(const GemmShape &shape) {
  ProductUnit unit = productUnit();
  double products = double(shape.m) * double(shape.n) * double(shape.k);
  return products > fewestProducts(unit) ? unit : ProductUnit::F32;
}

std::unique_ptr<NarrowGemm> NarrowGemm::make(const GemmShape &shape,
                                             int threads) {
  return make(shape, unitFor(shape), Tiles::WholeRows, threads);
}

std::unique_ptr<NarrowGemm> NarrowGemm::makeTask(const GemmShape &shape) {
  return make(shape, unitFor(shape), Tiles::One);
}

std::unique_ptr<NarrowGemm> NarrowGemm::make(const GemmShape &shape,
                                             ProductUnit unit, Tiles tiles,
                                             int threads) {
  // Sums of nothing are zero; BLAS sets them, and oneDNN has no such product.
  if (unit == ProductUnit::F32 || shape.k == 0)
    return std::make_unique<WidenedGemm>(shape, tiles);
  if (unit == ProductUnit::AMX)
    return makeAmxGemm(shape, tiles, threads);
  return std::make_unique<DnnlGemm>(shape, tiles, threads);
}
