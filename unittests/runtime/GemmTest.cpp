// GEMMs compared with a double-precision triple loop, in every layout; 1 and 3
// threads give the same bits. Products of BF16 are checked on the processor's
// unit, where it has one, and in F32.
#include "blas/Gemm.h"
#include "TestArtefact.h"
#include "blas/Blas.h"
#include "blas/NarrowGemm.h"
#include "loader/CpuFeatures.h"
#include "support/FloatFormats.h"
#include "support/ThreadPool.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <tuple>

using namespace scalify::rt;

namespace {
std::vector<float> randomVector(size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float &value : values)
    value = normal(engine);
  return values;
}

size_t span(const GemmShape &shape, int operand) {
  int64_t last = 0;
  EXPECT_TRUE(shape.lastElement(operand, last));
  return static_cast<size_t>(last + 1);
}

template <typename Fn> void eachBatch(const GemmShape &shape, Fn fn) {
  for (int64_t flat = 0; flat < shape.batchCount(); ++flat) {
    int64_t at[3] = {0, 0, 0}, rest = flat;
    for (size_t d = shape.batch.size(); d-- > 0;) {
      const BatchDim &dim = shape.batch[d];
      at[0] += rest % dim.n * dim.a;
      at[1] += rest % dim.n * dim.b;
      at[2] += rest % dim.n * dim.c;
      rest /= dim.n;
    }
    fn(at);
  }
}

void reference(const GemmShape &s, const std::vector<float> &a,
               const std::vector<float> &b, std::vector<float> &c) {
  eachBatch(s, [&](const int64_t *at) {
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < s.k; ++p)
          sum += double(a[at[0] + i * s.a.row + p * s.a.col]) *
                 double(b[at[1] + p * s.b.row + j * s.b.col]);
        float &out = c[at[2] + i * s.c.row + j * s.c.col];
        out = float(double(s.alpha) * sum + double(s.beta) * out);
      }
  });
}

void checkGemm(const GemmShape &shape) {
  std::vector<float> a = randomVector(span(shape, 0), 1);
  std::vector<float> b = randomVector(span(shape, 1), 2);
  std::vector<float> want = randomVector(span(shape, 2), 3);
  std::vector<float> start = want, first;
  reference(shape, a, b, want);
  GemmPlan plan;
  ASSERT_EQ(planGemm(shape, plan), "");
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<float> c = start;
    pool.forEach(plan.tasks(), [&](int64_t task) {
      runGemmTask(shape, plan, a.data(), b.data(), c.data(), task);
    });
    double worst = 0;
    for (size_t i = 0; i < c.size(); ++i)
      worst = std::max(worst, std::fabs(double(c[i]) - double(want[i])));
    EXPECT_LT(worst, 1e-5 * (1 + double(shape.k)));
    if (first.empty())
      first = c;
    EXPECT_EQ(std::memcmp(first.data(), c.data(), 4 * c.size()), 0);
  }
}

/// Keeps the upper half of each word, and returns those halves.
std::vector<uint16_t> toBF16(std::vector<float> &values) {
  std::vector<uint16_t> halves;
  for (float &value : values) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    halves.push_back(uint16_t(word >> 16));
    word &= 0xffff0000u;
    std::memcpy(&value, &word, 4);
  }
  return halves;
}

/// Products of BF16 are exact in F32, so the bound is that of sums in F32.
void checkNarrow(const GemmShape &shape, ProductUnit unit) {
  std::vector<float> a = randomVector(span(shape, 0), 1);
  std::vector<float> b = randomVector(span(shape, 1), 2);
  std::vector<uint16_t> narrowA = toBF16(a), narrowB = toBF16(b);
  std::vector<float> want = randomVector(span(shape, 2), 3);
  std::vector<float> start = want, first;
  reference(shape, a, b, want);
  for (int threads : {1, 3, 16}) {
    // Tiles by the number of threads, and the same bits.
    auto product = NarrowGemm::make(shape, unit, Tiles::WholeRows, threads);
    ThreadPool pool(threads);
    std::vector<float> c = start;
    NarrowGemm::Operands operands{narrowA.data(), narrowB.data(), c.data()};
    pool.forEach(product->tasks(),
                 [&](int64_t task) { product->run(task, operands); });
    double worst = 0;
    for (size_t i = 0; i < c.size(); ++i)
      worst = std::max(worst, std::fabs(double(c[i]) - double(want[i])));
    EXPECT_LT(worst, 1e-5 * (1 + double(shape.k))) << name(unit);
    if (first.empty())
      first = c;
    EXPECT_EQ(std::memcmp(first.data(), c.data(), 4 * c.size()), 0);
  }
}

void checkGemms(const GemmShape &shape) {
  checkGemm(shape);
  checkNarrow(shape, ProductUnit::F32);
  if (productUnit() != ProductUnit::F32)
    checkNarrow(shape, productUnit());
}

Strides rowMajor(int64_t cols) { return {cols, 1}; }
Strides colMajor(int64_t rows) { return {1, rows}; }

GemmShape make(int64_t m, int64_t n, int64_t k, int layout) {
  GemmShape s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.a = layout & 1 ? colMajor(m) : rowMajor(k);
  s.b = layout & 2 ? colMajor(k) : rowMajor(n);
  s.c = layout & 4 ? colMajor(m) : rowMajor(n);
  return s;
}
} // namespace

TEST(Gemm, EveryLayout) {
  for (int layout = 0; layout < 8; ++layout)
    checkGemms(make(37, 53, 19, layout));
}

TEST(Gemm, ThinAndLargeShapes) {
  for (int layout = 0; layout < 8; ++layout) {
    checkGemms(make(1, 300, 40, layout));
    checkGemms(make(300, 1, 40, layout));
    checkGemms(make(30, 40, 1, layout));
    checkGemms(make(1, 1, 1, layout));
    checkGemms(make(515, 391, 129, layout));
  }
}

TEST(Gemm, AlphaBetaAndPaddedRows) {
  GemmShape s = make(70, 150, 33, 0);
  s.a.row = 40;
  s.b.row = 200;
  s.c.row = 151;
  s.alpha = 0.25f;
  s.beta = 1.0f;
  checkGemms(s);
}

TEST(Gemm, EmptySumGivesZero) {
  GemmShape s = make(4, 5, 0, 0);
  checkGemms(s);
}

TEST(Gemm, BatchedAttention) {
  // [B, T, H, D] operands: batch and head are strided, rows step over heads.
  const int64_t B = 3, H = 4, T = 33, D = 16;
  GemmShape s;
  s.m = T;
  s.n = T;
  s.k = D;
  s.a = {H * D, 1};
  s.b = {1, H * D};
  s.c = {T, 1};
  s.batch = {{B, T * H * D, T * H * D, H * T * T}, {H, D, D, T * T}};
  checkGemms(s);
  // One right operand for all products.
  s.batch[0].b = s.batch[1].b = 0;
  checkGemms(s);
}

// Several blocks of K, and columns that are no multiple of a vector.
TEST(Gemm, RowsOfTilesChangeNoBit) {
  for (bool isTransposed : {false, true}) {
    GemmShape tall = make(200, 200, 1100, 0), wide = make(70, 4200, 400, 0),
              odd = make(129, 4200, 300, 0);
    for (GemmShape shape : {tall, wide, odd}) {
      if (isTransposed)
        shape.a = {1, shape.m};
      checkGemms(shape);
    }
  }
}

TEST(Gemm, EachExecutionWidensItsOwnOperands) {
  GemmShape shape = make(96, 64, 32, 0);
  auto product = NarrowGemm::make(shape, ProductUnit::F32, Tiles::WholeRows);
  std::vector<float> ones(96 * 32, 1.0f);
  std::vector<uint16_t> a = toBF16(ones);
  std::vector<float> c(96 * 64);
  std::vector<uint16_t> b(32 * 64);
  for (float value : {1.0f, 2.0f}) {
    std::vector<float> right(32 * 64, value);
    // In place: at the address of the operand before.
    std::vector<uint16_t> words = toBF16(right);
    std::copy(words.begin(), words.end(), b.begin());
    NarrowGemm::Operands operands{a.data(), b.data(), c.data()};
    for (int64_t task = 0; task < product->tasks(); ++task)
      product->run(task, operands);
    EXPECT_EQ(c, std::vector<float>(96 * 64, 32 * value));
  }
}

TEST(Gemm, SmallProductsRunInF32) {
  GemmShape small = make(4, 16, 16, 0), large = make(256, 256, 256, 0);
  EXPECT_EQ(NarrowGemm::make(small)->getUnit(), ProductUnit::F32);
  EXPECT_EQ(NarrowGemm::make(large)->getUnit(), productUnit());
}

// Sums of small integers are exact in any order: also those that are begun
// again for a further block of K. What lies between the rows of C stays.
TEST(Gemm, SumsOfIntegersAreExact) {
  std::mt19937 engine(7);
  auto integers = [&](size_t size) {
    std::vector<float> values(size);
    for (float &value : values)
      value = float(int(engine() % 9) - 4);
    return values;
  };
  for (int layout = 0; layout < 8; ++layout)
    for (auto [m, n, k, alpha, beta] : {std::tuple{33, 95, 1600, 1.0f, 0.0f},
                                        {47, 16, 1031, 0.5f, 0.0f},
                                        {96, 64, 544, 1.0f, 0.0f},
                                        {64, 130, 1090, 2.0f, 1.0f}}) {
      GemmShape shape = make(m, n, k, layout);
      (layout & 4 ? shape.c.col : shape.c.row) += 5;
      shape.alpha = alpha;
      shape.beta = beta;
      std::vector<float> a = integers(span(shape, 0));
      std::vector<float> b = integers(span(shape, 1));
      std::vector<float> c = integers(span(shape, 2)), want = c;
      reference(shape, a, b, want);
      std::vector<uint16_t> narrowA = toBF16(a), narrowB = toBF16(b);
      for (Tiles tiles : {Tiles::WholeRows, Tiles::One}) {
        std::vector<float> found = c;
        auto product = NarrowGemm::make(shape, productUnit(), tiles, 3);
        NarrowGemm::Operands operands{narrowA.data(), narrowB.data(),
                                      found.data()};
        for (int64_t task = 0; task < product->tasks(); ++task)
          product->run(task, operands);
        EXPECT_EQ(found, want) << m << "x" << n << "x" << k << " " << layout;
      }
    }
}

// Units for BF16 take subnormals for zero; no number of FP8 is one of BF16.
TEST(Gemm, EveryProductOfFP8IsExact) {
  std::vector<uint8_t> codes(256);
  std::iota(codes.begin(), codes.end(), 0);
  for (DType left : {DType::F8E4M3FN, DType::F8E5M2})
    for (DType right : {DType::F8E4M3FN, DType::F8E5M2}) {
      std::vector<float> a(256), b(256), c(256 * 256);
      convertToF32(left, codes.data(), a.data(), 256);
      convertToF32(right, codes.data(), b.data(), 256);
      for (std::vector<float> *values : {&a, &b})
        for (float &value : *values)
          value = std::isfinite(value) ? value : 0.0f;
      std::vector<uint16_t> narrowA = toBF16(a), narrowB = toBF16(b);
      GemmShape shape = make(256, 256, 1, 0);
      auto product = NarrowGemm::make(shape, productUnit(), Tiles::WholeRows);
      NarrowGemm::Operands operands{narrowA.data(), narrowB.data(), c.data()};
      for (int64_t task = 0; task < product->tasks(); ++task)
        product->run(task, operands);
      for (size_t i = 0; i < 256; ++i)
        for (size_t j = 0; j < 256; ++j)
          ASSERT_EQ(c[256 * i + j], a[i] * b[j]) << i << " x " << j;
    }
}

TEST(Gemm, RefusesWhatBlasCannotDo) {
  GemmPlan plan;
  GemmShape s = make(4, 5, 6, 0);
  s.a = {12, 2};
  EXPECT_NE(planGemm(s, plan).find("operand a has strides [12,2]"),
            std::string::npos);
  s = make(4, 5, 6, 0);
  s.b = {0, 1};
  EXPECT_NE(planGemm(s, plan).find("operand b"), std::string::npos);
  s = make(4, 5, 6, 4);
  s.a = {12, 2};
  EXPECT_NE(planGemm(s, plan).find("operand a"), std::string::npos);
  s = make(int64_t(1) << 32, 1, 1, 0);
  EXPECT_NE(planGemm(s, plan).find("32-bit"), std::string::npos);
}

// On a CPU newer than itself, OpenBLAS's own choice has a fifth of the speed.
TEST(Gemm, KernelsFitTheCpu) {
  if (std::getenv("OPENBLAS_CORETYPE"))
    GTEST_SKIP() << "the environment chooses the kernels";
  const std::string &what = Blas::get().description;
  const char *want = hostLevel() >= 4 ? "SkylakeX" : "Haswell";
  if (hostLevel() >= 3)
    EXPECT_NE(what.find(want), std::string::npos) << what;
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

TEST(Gemm, AsACommandOfAStep) {
  using namespace scalify::rt::test;
  Json m = tinyManifest(64);
  m["buffers"] = {buffer("arg", 0, {64}), buffer("arg", 1, {8, 8}),
                  buffer("result", 1, {}), buffer("temp", 0, {8, 8})};
  Json gemm = {{"op", "gemm"},
               {"name", "dot"},
               {"loc", "step/dot"},
               {"a", 0},
               {"b", 1},
               {"c", 3},
               {"dtype", "f32"},
               {"m", 8},
               {"n", 8},
               {"k", 8},
               {"a_off", 0},
               {"b_off", 0},
               {"c_off", 0},
               {"a_strides", {8, 1}},
               {"b_strides", {1, 8}},
               {"c_strides", {8, 1}},
               {"batch", Json::array()},
               {"alpha", 2.0},
               {"beta", 0.0}};
  Json total = m["functions"]["step"][2];
  total["bufs"] = {3, 2};
  m["functions"]["step"] = {gemm, total};
  Handle exe = load(pack(m, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::vector<float> a(64), b(64, 0.0f);
  for (int i = 0; i < 64; ++i)
    a[i] = float(i);
  for (int i = 0; i < 8; ++i)
    b[9 * i] = 1.0f;
  float loss = 0;
  void *args[] = {a.data(), b.data()}, *results[] = {nullptr, &loss};
  ASSERT_EQ(scalify_rt_run(exe.get(), "step", args, 2, results, 2),
            SCALIFY_RT_OK);
  EXPECT_EQ(loss, 2.0f * 63 * 64 / 2);
  scalify_rt_profile_entry row;
  ASSERT_EQ(scalify_rt_profile(exe.get(), 0, &row), SCALIFY_RT_OK);
  EXPECT_EQ(row.flops, 2u * 8 * 8 * 8);

  auto failure = [&](const char *key, const Json &value) {
    Json bad = m;
    bad["functions"]["step"][0][key] = value;
    EXPECT_FALSE(load(pack(bad, kernels(), "")));
    return std::string(scalify_rt_last_error());
  };
  EXPECT_NE(failure("a_off", 1).find("past the end"), std::string::npos);
  EXPECT_NE(failure("m", 9).find("past the end"), std::string::npos);
  EXPECT_NE(failure("b_strides", {1, 0}).find("BLAS needs"), std::string::npos);
  EXPECT_NE(failure("dtype", "bf16").find("a CPU writes f32 only"),
            std::string::npos);
  Json narrow = m;
  narrow["buffers"][1]["dtype"] = "bf16";
  EXPECT_FALSE(load(pack(narrow, kernels(), "")));
  EXPECT_NE(std::string(scalify_rt_last_error()).find("convert it first"),
            std::string::npos);

  narrow["buffers"][0]["dtype"] = "bf16";
  exe = load(pack(narrow, kernels(), ""));
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::vector<uint16_t> narrowA = toBF16(a), narrowB = toBF16(b);
  void *halves[] = {narrowA.data(), narrowB.data()};
  ASSERT_EQ(scalify_rt_run(exe.get(), "step", halves, 2, results, 2),
            SCALIFY_RT_OK);
  EXPECT_EQ(loss, 2.0f * 63 * 64 / 2);
}
