#include "blas/AmxTiles.h"
#include "loader/CpuFeatures.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

using namespace scalify::rt;
using namespace scalify::rt::amx;

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCALIFY_AMX                                                            \
  __attribute__((                                                              \
      target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq")))
#define SCALIFY_AMX_INLINE SCALIFY_AMX __attribute__((always_inline)) inline
#if defined(__clang__)
#define SCALIFY_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SCALIFY_UNROLL _Pragma("GCC unroll 16")
#endif

/// Linux gives a process the registers when it asks (arch_prctl of x86).
static bool askForTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  if (!hasAmxBF16())
    return false;
  if (syscall(SYS_arch_prctl, requestPermission, tileData) == 0)
    return true;
  std::fprintf(stderr,
               "scalify: products of BF16 and FP8 run without AMX: the "
               "operating system refuses its registers: %s\n",
               errno == ENOSPC ? "the alternate signal stack of a thread is "
                                 "too small for them (sigaltstack)"
                               : std::strerror(errno));
  return false;
}

bool amx::isUsable() {
  static const bool result = askForTiles();
  return result;
}

/// GCC's intrinsics do not say that they access memory.
static inline void finishWrites() { __asm__ volatile("" ::: "memory"); }

SCALIFY_AMX static void configureTiles() {
  struct alignas(64) {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  __asm__ volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}

SCALIFY_AMX static void releaseTiles() { _tile_release(); }

// GCC takes no target for constructors and destructors.
Session::Session() { configureTiles(); }

// Registers in use make each switch of a thread dearer.
Session::~Session() { releaseTiles(); }

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

namespace {
/// 16 rows of 16 words of two elements, in registers.
struct Words {
  __m512i rows[16];
};

uint32_t maskOf(int64_t count) {
  return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1;
}

/// Loads 16 rows of 32 elements. Unless it is whole, there are zeros beyond
/// `rows` and `count`.
template <bool IsWhole>
SCALIFY_AMX_INLINE void loadRows(Words &to, const uint16_t *from,
                                 int64_t stride, int64_t rows, int64_t count) {
  __mmask32 mask = maskOf(count);
  SCALIFY_UNROLL
  for (int i = 0; i < 16; ++i)
    if (IsWhole)
      to.rows[i] = _mm512_loadu_si512(from + i * stride);
    else
      to.rows[i] =
          _mm512_maskz_loadu_epi16(i < rows ? mask : 0, from + i * stride);
}

/// Loads 16 pairs of rows of 16 elements, those of a pair side by side. Unless
/// it is whole, there are zeros beyond `rows` and `count`.
template <bool IsWhole>
SCALIFY_AMX_INLINE void loadPairs(Words &to, const uint16_t *from,
                                  int64_t stride, int64_t rows, int64_t count) {
  __mmask16 mask = __mmask16(maskOf(count));
  SCALIFY_UNROLL
  for (int i = 0; i < 16; ++i) {
    const uint16_t *row = from + 2 * i * stride;
    __m256i even, odd;
    if (IsWhole) {
      even = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(row));
      odd = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(row + stride));
    } else {
      even = _mm256_maskz_loadu_epi16(2 * i < rows ? mask : 0, row);
      odd = _mm256_maskz_loadu_epi16(2 * i + 1 < rows ? mask : 0, row + stride);
    }
    __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16);
    to.rows[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), high);
  }
}

/// Transposes the 16 x 16 words, in four rounds of exchanges.
SCALIFY_AMX_INLINE void transpose(Words &words) {
  __m512i *r = words.rows, t[16];
  SCALIFY_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  SCALIFY_UNROLL
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  SCALIFY_UNROLL
  for (int i = 0; i < 16; ++i)
    if (i % 8 < 4) {
      t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    }
  SCALIFY_UNROLL
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
    r[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
  }
}

SCALIFY_AMX_INLINE void store(const Words &words, uint16_t *to) {
  SCALIFY_UNROLL
  for (int i = 0; i < 16; ++i)
    _mm512_store_si512(to + 32 * i, words.rows[i]);
}

/// Copies rows, each in one go, and pads them with zeros.
SCALIFY_AMX void copyRows(const Operand &from, int64_t rows, int64_t count,
                          uint16_t *to) {
  for (int64_t row = 0; row < kPanel; ++row) {
    const uint16_t *source = from.data + row * from.stride;
    uint16_t *target = to + row * kDepth;
    for (int64_t k = 0; k < count; k += kDepth, target += kPanel * kDepth) {
      __mmask32 mask = row < rows ? maskOf(count - k) : 0;
      _mm512_store_si512(target, _mm512_maskz_loadu_epi16(mask, source + k));
    }
  }
}

/// Makes a tile of a left operand in columns.
template <bool IsWhole>
SCALIFY_AMX_INLINE void packLeftTile(const Operand &from, int64_t rows,
                                     int64_t count, uint16_t *to) {
  Words words;
  loadPairs<IsWhole>(words, from.data, from.stride, count, rows);
  transpose(words);
  store(words, to);
}

/// Makes a tile of a right operand.
template <bool IsWhole>
SCALIFY_AMX_INLINE void packRightTile(const Operand &from, int64_t count,
                                      int64_t cols, uint16_t *to) {
  Words words;
  if (from.isTransposed) {
    loadRows<IsWhole>(words, from.data, from.stride, cols, count);
    transpose(words);
  } else {
    loadPairs<IsWhole>(words, from.data, from.stride, count, cols);
  }
  store(words, to);
}
} // namespace

SCALIFY_AMX Panel amx::packLeft(const Operand &from, int64_t rows,
                                int64_t count, int64_t cols, uint16_t *to) {
  Panel packed{to, 64, kPanel * kDepth, kTile * kDepth};
  if (!from.isTransposed) {
    if (rows == kPanel && count % kDepth == 0 && cols <= kFewColumns)
      return {from.data, 2 * from.stride, kDepth, kTile * from.stride};
    copyRows(from, rows, count, to);
    return packed;
  }
  for (int64_t k = 0; k < count; k += kDepth)
    for (int64_t row = 0; row < kPanel; row += kTile, to += kTile * kDepth) {
      Operand tile = from.at(row, k);
      if (row + kTile <= rows && k + kDepth <= count)
        packLeftTile<true>(tile, kTile, kDepth, to);
      else
        packLeftTile<false>(tile, rows - row, count - k, to);
    }
  return packed;
}

SCALIFY_AMX void amx::packRight(const Operand &from, int64_t count,
                                int64_t cols, uint16_t *to) {
  int64_t panel = (count + kDepth - 1) / kDepth * kDepth * kPanel;
  // Along the rows of the matrix in memory, which are read ahead.
  for (int64_t k = 0; k < count; k += kDepth, to += kPanel * kDepth)
    for (int64_t col = 0; col < cols; col += kTile) {
      Operand tile = from.at(k, col);
      uint16_t *target = to + col / kPanel * panel + col % kPanel * kDepth;
      if (k + kDepth <= count && col + kTile <= cols)
        packRightTile<true>(tile, kDepth, kTile, target);
      else
        packRightTile<false>(tile, count - k, cols - col, target);
    }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {
/// Adds the products to the tiles.
template <int Rows, int Cols>
SCALIFY_AMX_INLINE void sum(const Panel &left, const uint16_t *right,
                            int64_t steps) {
  const uint16_t *a = left.data;
  finishWrites();
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(6, right, 64);
    _tile_loadd(4, a, left.stride);
    _tile_dpbf16ps(0, 4, 6);
    if (Cols > 1) {
      _tile_loadd(7, right + kTile * kDepth, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (Rows > 1) {
      _tile_loadd(5, a + left.second, left.stride);
      _tile_dpbf16ps(2, 5, 6);
      if (Cols > 1)
        _tile_dpbf16ps(3, 5, 7);
    }
    a += left.next;
    right += kPanel * kDepth;
  }
}

template <int Rows, int Cols> SCALIFY_AMX_INLINE void clearTiles() {
  _tile_zero(0);
  if (Cols > 1)
    _tile_zero(1);
  if (Rows > 1)
    _tile_zero(2);
  if (Rows > 1 && Cols > 1)
    _tile_zero(3);
}

/// Loads the tiles from rows that are `stride` apart.
template <int Rows, int Cols>
SCALIFY_AMX_INLINE void loadTiles(const float *from, int64_t stride) {
  finishWrites();
  _tile_loadd(0, from, 4 * stride);
  if (Cols > 1)
    _tile_loadd(1, from + kTile, 4 * stride);
  if (Rows > 1)
    _tile_loadd(2, from + kTile * stride, 4 * stride);
  if (Rows > 1 && Cols > 1)
    _tile_loadd(3, from + kTile * stride + kTile, 4 * stride);
}

template <int Rows, int Cols>
SCALIFY_AMX_INLINE void storeTiles(float *to, int64_t stride) {
  _tile_stored(0, to, 4 * stride);
  if (Cols > 1)
    _tile_stored(1, to + kTile, 4 * stride);
  if (Rows > 1)
    _tile_stored(2, to + kTile * stride, 4 * stride);
  if (Rows > 1 && Cols > 1)
    _tile_stored(3, to + kTile * stride + kTile, 4 * stride);
  finishWrites();
}

/// Copies `cols` columns, at most 32, of the result to rows of 32.
SCALIFY_AMX_INLINE void read(float *to, int64_t rows, int64_t cols,
                             const float *c, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; col += kTile) {
      __mmask16 mask = __mmask16(maskOf(cols - col));
      const float *from = c + row * stride + col;
      _mm512_store_ps(to + row * kPanel + col,
                      _mm512_maskz_loadu_ps(mask, from));
    }
}

/// Writes alpha * sums + beta * C to `cols` columns, at most 32.
SCALIFY_AMX_INLINE void write(const float *sums, int64_t rows, int64_t cols,
                              float *c, const Update &update) {
  __m512 alpha = _mm512_set1_ps(update.isLast ? update.alpha : 1.0f);
  __m512 beta = _mm512_set1_ps(update.beta);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; col += kTile) {
      __mmask16 mask = __mmask16(maskOf(cols - col));
      float *to = c + row * update.stride + col;
      __m512 value =
          _mm512_mul_ps(_mm512_load_ps(sums + row * kPanel + col), alpha);
      if (update.beta != 0.0f)
        value = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, to), beta, value);
      _mm512_mask_storeu_ps(to, mask, value);
    }
}

/// Writes alpha * sums as rows of columns.
SCALIFY_AMX_INLINE void writeTransposed(const float *sums, int64_t rows,
                                        int64_t cols, float *c,
                                        const Update &update) {
  __m512 alpha = _mm512_set1_ps(update.alpha);
  for (int64_t row = 0; row < rows; row += kTile)
    for (int64_t col = 0; col < cols; col += kTile) {
      const float *from = sums + row * kPanel + col;
      Words words;
      SCALIFY_UNROLL
      for (int i = 0; i < 16; ++i)
        words.rows[i] = _mm512_load_si512(from + i * kPanel);
      transpose(words);
      __mmask16 mask = __mmask16(maskOf(rows - row));
      float *to = c + col * update.stride + row;
      SCALIFY_UNROLL
      for (int i = 0; i < 16; ++i)
        if (i < cols - col)
          _mm512_mask_storeu_ps(
              to + i * update.stride, mask,
              _mm512_mul_ps(_mm512_castsi512_ps(words.rows[i]), alpha));
    }
}

template <int Rows, int Cols>
SCALIFY_AMX_INLINE void multiply(const Panel &left, const uint16_t *right,
                                 int64_t steps, int64_t rows, int64_t cols,
                                 float *c, const Update &update) {
  alignas(64) float sums[kPanel * kPanel];
  bool isWhole = rows == Rows * kTile && cols == Cols * kTile;
  if (update.isFirst) {
    clearTiles<Rows, Cols>();
  } else if (isWhole) {
    loadTiles<Rows, Cols>(c, update.stride);
  } else {
    read(sums, rows, cols, c, update.stride);
    loadTiles<Rows, Cols>(sums, kPanel);
  }
  sum<Rows, Cols>(left, right, steps);
  bool isSum = !update.isLast || (update.alpha == 1.0f && update.beta == 0.0f);
  if (isWhole && isSum && !update.isTransposed)
    return storeTiles<Rows, Cols>(c, update.stride);
  storeTiles<Rows, Cols>(sums, kPanel);
  if (update.isTransposed)
    writeTransposed(sums, rows, cols, c, update);
  else
    write(sums, rows, cols, c, update);
}
} // namespace

SCALIFY_AMX void amx::multiplyPanel(const Panel &left, const uint16_t *right,
                                    int64_t steps, int64_t rows, int64_t cols,
                                    float *c, const Update &update) {
  bool isTall = rows > kTile, isWide = cols > kTile;
  if (isTall && isWide)
    multiply<2, 2>(left, right, steps, rows, cols, c, update);
  else if (isTall)
    multiply<2, 1>(left, right, steps, rows, cols, c, update);
  else if (isWide)
    multiply<1, 2>(left, right, steps, rows, cols, c, update);
  else
    multiply<1, 1>(left, right, steps, rows, cols, c, update);
}
#else
// Never called: no other processor has AMX.
bool amx::isUsable() { return false; }
Session::Session() {}
Session::~Session() {}
Panel amx::packLeft(const Operand &, int64_t, int64_t, int64_t, uint16_t *) {
  return {};
}
void amx::packRight(const Operand &, int64_t, int64_t, uint16_t *) {}
void amx::multiplyPanel(const Panel &, const uint16_t *, int64_t, int64_t,
                        int64_t, float *, const Update &) {}
#endif
