// Kernels on the tile registers of AMX: 16 rows of 64 bytes.
//
// A step multiplies 32 elements of K. The left operand of a step is a tile of
// 16 rows with 32 elements each, the right one a tile of 16 pairs of rows for
// 16 columns, with the two elements of a pair side by side. A panel is two
// tiles wide.
#ifndef SCALIFY_RUNTIME_BLAS_AMXTILES_H
#define SCALIFY_RUNTIME_BLAS_AMXTILES_H

#include <cstdint>

namespace scalify::rt::amx {

inline constexpr int64_t kTile = 16, kPanel = 32, kDepth = 32;

/// Returns whether the processor has AMX for BF16 and the operating system
/// lets this process use it, for which it is asked once.
bool isUsable();

/// While it lives, the tile registers of the calling thread are configured.
class Session {
public:
  Session();
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
};

/// A matrix in memory: row-major, or transposed. `stride` is in elements.
struct Operand {
  const uint16_t *data;
  int64_t stride;
  bool isTransposed;

  Operand transposed() const { return {data, stride, !isTransposed}; }
  Operand at(int64_t row, int64_t col) const {
    Operand result = *this;
    result.data += isTransposed ? row + col * stride : row * stride + col;
    return result;
  }
};

/// How a block of K changes the result, whose rows are `stride` apart: the last
/// one leaves alpha * sum + beta * C, and the others the sum so far. Only a
/// block that is both may have a beta. A transposed result has the rows of the
/// product as columns; it has one block and no beta.
struct Update {
  float alpha, beta;
  int64_t stride;
  bool isFirst, isLast, isTransposed;
};

/// Two tiles of 16 rows for each step. `stride` is in bytes, `next` leads to
/// the tile of the next step and `second` to the second one of this step.
struct Panel {
  const uint16_t *data;
  int64_t stride, next, second;
};

/// Rows that so few columns read, twice at most, are not copied before.
inline constexpr int64_t kFewColumns = 2 * kPanel;

/// Returns a panel of `rows` rows, at most 32, in `to` or where it lies.
Panel packLeft(const Operand &from, int64_t rows, int64_t count, int64_t cols,
               uint16_t *to);

/// Packs `cols` columns, at most 32, of `count` rows.
void packRight(const Operand &from, int64_t count, int64_t cols, uint16_t *to);

/// Computes up to 32 x 32 elements of the result.
void multiplyPanel(const Panel &left, const uint16_t *right, int64_t steps,
                   int64_t rows, int64_t cols, float *c, const Update &update);

} // namespace scalify::rt::amx

#endif // SCALIFY_RUNTIME_BLAS_AMXTILES_H
