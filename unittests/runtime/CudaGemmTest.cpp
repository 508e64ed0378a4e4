// Products as passed to cuBLASLt: the order of matrices, batches, and those
// that its contract refuses.
#include "GpuArtefact.h"
#include "support/Error.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;
using namespace scalify::rt::test;

namespace {
struct Product {
  int64_t m = 32, n = 48, k = 64;
  const char *a = "f8E4M3FN", *b = "f8E4M3FN", *c = "bf16";
  // For a, b and c; empty for dense, K contiguous in a and b.
  std::vector<int64_t> aStrides, bStrides, cStrides;
  Json more = Json::object();
  Json batch = Json::array();
  int64_t aOffset = 0;
  int64_t aScales = 1, bScales = 1; // elements of buffers 5 and 6, F32
  size_t blasVersion = 130000;
};

/// A step of that product, in a large arena.
Json manifestOf(const Product &p) {
  const int64_t room = 1 << 20;
  auto strides = [](const std::vector<int64_t> &given, const Json &dense) {
    return given.empty() ? dense : Json(given);
  };
  Json m = gpuManifest();
  m["arena_bytes"] = 14 * room;
  m["buffers"] = {buffer("temp", 0, {room}, p.a),
                  buffer("temp", 4 * room, {room}, p.b),
                  buffer("temp", 8 * room, {room}, p.c),
                  buffer("const", 0, {}),
                  buffer("const", 64, {}),
                  buffer("temp", 12 * room, {p.aScales}),
                  buffer("temp", 13 * room, {p.bScales})};
  Json gemm = {{"op", "gemm"},
               {"name", "dot"},
               {"loc", "step/dot"},
               {"m", p.m},
               {"n", p.n},
               {"k", p.k},
               {"a", 0},
               {"b", 1},
               {"c", 2},
               {"batch", p.batch},
               {"a_off", p.aOffset},
               {"a_strides", strides(p.aStrides, {p.k, 1})},
               {"b_strides", strides(p.bStrides, {1, p.k})},
               {"c_strides", strides(p.cStrides, {p.n, 1})}};
  gemm.update(p.more);
  m["functions"]["step"] = {gemm};
  return m;
}

/// Returns the lines of cublasLtMatmul of one step, or the error.
std::string matmuls(const Product &p) {
  auto driver = std::make_shared<RecordingDriver>();
  driver->blasVersion = p.blasVersion;
  return matmulsOf(manifestOf(p), driver);
}

std::string shapeOf(const Product &p) {
  std::string line = matmuls(p);
  size_t bar = line.find("| ");
  return bar == std::string::npos ? line
                                  : line.substr(bar + 2, line.size() - bar - 3);
}

Product wide(const char *type, const char *result) {
  Product p;
  p.a = p.b = type;
  p.c = result;
  return p;
}
} // namespace

// Row-major C of 32 x 48 is column-major D of 48 x 32, and D = B' A'.
TEST(CudaGemm, RowMajorResultsAreTransposed) {
  Product p;
  EXPECT_EQ(shapeOf(p),
            "TN m=48 n=32 k=64 a=f8E4M3FN ld=64 b=f8E4M3FN ld=64 d=bf16 ld=48 "
            "batch=1 compute=f32");
  p.b = "f8E5M2";
  p.c = "f32";
  EXPECT_EQ(shapeOf(p),
            "TN m=48 n=32 k=64 a=f8E5M2 ld=64 b=f8E4M3FN ld=64 d=f32 ld=48 "
            "batch=1 compute=f32");
}

TEST(CudaGemm, ColumnMajorResultsAreNot) {
  Product p;
  p.cStrides = {1, 32};
  p.b = "f8E5M2";
  EXPECT_EQ(shapeOf(p),
            "TN m=32 n=48 k=64 a=f8E4M3FN ld=64 b=f8E5M2 ld=64 d=bf16 ld=32 "
            "batch=1 compute=f32");
}

TEST(CudaGemm, WideOperandsMayLieEitherWay) {
  Product p = wide("bf16", "bf16");
  EXPECT_EQ(shapeOf(p).substr(0, 2), "TN");
  p.bStrides = {48, 1};
  EXPECT_EQ(shapeOf(p),
            "NN m=48 n=32 k=64 a=bf16 ld=48 b=bf16 ld=64 d=bf16 ld=48 batch=1 "
            "compute=f32");
  p.aStrides = {1, 32};
  EXPECT_EQ(shapeOf(p).substr(0, 2), "NT");
  p = wide("f32", "f32");
  p.more["compute"] = "tf32";
  EXPECT_TRUE(contains(shapeOf(p), "compute=tf32"));
}

TEST(CudaGemm, ScalesGoWithTheirOperand) {
  Product p;
  EXPECT_TRUE(contains(matmuls(p), " a_scale=one+0 b_scale=one+0 "));
  p.more["b_scale"] = 4;
  EXPECT_TRUE(contains(matmuls(p), " a_scale=const+64 b_scale=one+0 "));
  p.more["a_scale"] = 3;
  EXPECT_TRUE(contains(matmuls(p), " a_scale=const+64 b_scale=const+0 "));
  p.cStrides = {1, 32};
  EXPECT_TRUE(contains(matmuls(p), " a_scale=const+0 b_scale=const+64 "));
  EXPECT_FALSE(contains(matmuls(wide("bf16", "f32")), "scale="));
}

TEST(CudaGemm, OneBatchDimensionIsStrided) {
  Product p;
  p.batch = {{{"n", 5}, {"a", 2048}, {"b", 0}, {"c", 1536}}};
  EXPECT_EQ(shapeOf(p),
            "TN m=48 n=32 k=64 a=f8E4M3FN ld=64 stride=0 b=f8E4M3FN ld=64 "
            "stride=2048 d=bf16 ld=48 stride=1536 batch=5 compute=f32");
}

TEST(CudaGemm, DimensionsThatStepEvenlyAreOne) {
  Product p;
  p.batch = {{{"n", 3}, {"a", 4 * 2048}, {"b", 4 * 3072}, {"c", 4 * 1536}},
             {{"n", 4}, {"a", 2048}, {"b", 3072}, {"c", 1536}}};
  std::string lines = matmuls(p);
  EXPECT_TRUE(contains(lines, "batch=12"));
  EXPECT_EQ(lines.find('\n'), lines.size() - 1);
}

// cuBLASLt takes the largest dimension, the runtime loops over the others: 2 x
// 3 products, at the addresses by their strides.
TEST(CudaGemm, OtherBatchDimensionsAreWalked) {
  Product p = wide("f16", "f32");
  p.batch = {{{"n", 2}, {"a", 100000}, {"b", 0}, {"c", 200000}},
             {{"n", 7}, {"a", 2048}, {"b", 0}, {"c", 1536}},
             {{"n", 3}, {"a", 0}, {"b", 3072}, {"c", 50000}}};
  p.aOffset = 64;
  std::string lines = matmuls(p), want;
  for (int64_t inner = 0; inner < 3; ++inner)
    for (int64_t outer = 0; outer < 2; ++outer)
      want += "cublasLtMatmul a=arena+" +
              std::to_string(4194304 + inner * 3072 * 2) + " b=arena+" +
              std::to_string(128 + outer * 100000 * 2) + " d=arena+" +
              std::to_string(8388608 + outer * 200000 * 4 + inner * 50000 * 4) +
              "\n";
  std::string got;
  for (size_t at = 0, end; at < lines.size(); at = end + 1) {
    end = lines.find('\n', at);
    std::string line = lines.substr(at, end - at);
    EXPECT_TRUE(contains(line, "batch=7"));
    got += line.substr(0, line.find(" alpha")) + "\n";
  }
  // The order of the two outer dimensions does not matter.
  auto sorted = [](const std::string &text) {
    std::vector<std::string> parts;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      parts.push_back(text.substr(at, end - at));
    }
    std::sort(parts.begin(), parts.end());
    return parts;
  };
  EXPECT_EQ(sorted(got), sorted(want));
}

TEST(CudaGemm, EmptyProductsIssueNothing) {
  Product p;
  p.m = 0;
  EXPECT_EQ(matmuls(p), "");
  p = {};
  p.batch = {{{"n", 0}, {"a", 2048}, {"b", 0}, {"c", 1536}}};
  EXPECT_EQ(matmuls(p), "");
  p = {};
  p.k = 0;
  EXPECT_EQ(matmuls(p),
            "gemm 'dot' sums over no elements; fill its result instead");
}

TEST(CudaGemm, ContractIsHeld) {
  struct Case {
    const char *want;
    Product product;
  };
  std::vector<Case> cases;
  auto add = [&](const char *want) -> Product & {
    cases.push_back({want, {}});
    return cases.back().product;
  };
  add("one of the operands must be f8E4M3FN").a = "f8E5M2";
  cases.back().product.b = "f8E5M2";
  add("must lie in the TN form, both with their sum's dimension contiguous; "
      "this is NN")
      .bStrides = {48, 1};
  add("this is TT").aStrides = {1, 32};
  add("an inner extent of a multiple of 16, not 72").k = 72;
  add("rows of the result of a multiple of 16 bytes, not 72").n = 36;
  add("leading dimensions of a multiple of 16 bytes, not 72").aStrides = {72,
                                                                          1};
  add("batch strides of a multiple of 16 bytes, not 3000").batch = {
      {{"n", 2}, {"a", 3000}, {"b", 0}, {"c", 1536}}};
  add("written to one place").batch = {
      {{"n", 2}, {"a", 2048}, {"b", 0}, {"c", 0}}};
  add("matrix B is not at a multiple of 16 bytes").aOffset = 8;
  add("both operands or none must be FP8").b = "bf16";
  add("wide operands must have one type").a = "bf16";
  cases.back().product.b = "f16";
  add("or be f32").a = "bf16";
  cases.back().product.b = "bf16";
  cases.back().product.c = "f16";
  for (const Case &test : cases) {
    std::string got = matmuls(test.product);
    EXPECT_TRUE(contains(got, test.want)) << got << "\nwanted " << test.want;
    EXPECT_TRUE(contains(got, "in gemm 'dot' at step/dot")) << got;
  }
}

// The contract, with one mutation at a time of a valid product.
TEST(CudaGemm, ContractCatchesEveryMutation) {
  alignas(16) const float scale = 1;
  LtProblem good;
  good.opA = OpT;
  good.a = {R8F_E4M3, 64, 48, 64, 2, 3072};
  good.b = {R8F_E5M2, 64, 32, 64, 2, 2048};
  good.d = {R16BF, 48, 32, 48, 2, 1536};
  good.fastAccumulation = true;
  good.aScale = good.bScale = &scale;
  BlasStatus status = BlasSuccess;
  ASSERT_EQ(ltViolation(good, status), "");
  ASSERT_EQ(checkLtAddresses(good, {nullptr, nullptr, nullptr}), "");
  using Mutation = void (*)(LtProblem &);
  const Mutation mutations[] = {
      [](LtProblem &p) { p.opA = OpN; },
      [](LtProblem &p) { p.opB = OpT; },
      [](LtProblem &p) {
        p.opA = OpN;
        std::swap(p.a.rows, p.a.cols);
      },
      [](LtProblem &p) { p.a.type = R8F_E5M2; },
      [](LtProblem &p) { p.a.type = R16BF; },
      [](LtProblem &p) { p.b.rows = 63; },
      [](LtProblem &p) { p.a.leading = 63; },
      [](LtProblem &p) { p.b.leading = 72; },
      [](LtProblem &p) { p.d.leading = 50; },
      [](LtProblem &p) { p.a.batch = 1; },
      [](LtProblem &p) { p.a.batchStride = 3080; },
      [](LtProblem &p) { p.d.batchStride = 0; },
      [](LtProblem &p) { p.compute = Compute32FFastTF32; },
      [](LtProblem &p) { p.scaleType = R16F; },
      [](LtProblem &p) { p.aScale = nullptr; },
      [](LtProblem &p) { p.bScale = nullptr; },
      [](LtProblem &p) { p.dScale = p.aScale; },
      [](LtProblem &p) { p.amax = p.aScale; },
      [](LtProblem &p) { p.aMode = ScaleOuterVec; },
      [](LtProblem &p) { p.bMode = ScaleVec128; },
      [](LtProblem &p) { p.a.type = p.b.type = R16BF; }, // scales stay
      [](LtProblem &p) {
        p.a.type = p.b.type = R16BF;
        p.aScale = p.bScale = nullptr; // fast accumulation stays
      },
  };
  for (size_t i = 0; i < sizeof(mutations) / sizeof(mutations[0]); ++i) {
    LtProblem bad = good;
    mutations[i](bad);
    EXPECT_NE(ltViolation(bad, status), "") << "mutation " << i;
    EXPECT_NE(status, BlasSuccess);
  }
  // For products with many scales.
  good.a.batch = good.b.batch = good.d.batch = 1;
  good.fastAccumulation = false;
  good.aMode = ScaleVec128;
  good.bMode = ScaleBlk128x128;
  ASSERT_EQ(ltViolation(good, status), "");
  const Mutation scaled[] = {
      [](LtProblem &p) { p.aMode = ScaleScalar; },
      [](LtProblem &p) { p.aMode = ScaleOuterVec; },
      [](LtProblem &p) { p.aMode = ScaleBlk128x128; },
      [](LtProblem &p) { p.fastAccumulation = true; },
      [](LtProblem &p) { p.a.batch = p.b.batch = p.d.batch = 2; },
      [](LtProblem &p) { p.d.type = R8F_E4M3; },
      [](LtProblem &p) { p.aScale = nullptr; },
  };
  for (size_t i = 0; i < sizeof(scaled) / sizeof(scaled[0]); ++i) {
    LtProblem bad = good;
    scaled[i](bad);
    EXPECT_NE(ltViolation(bad, status), "") << "scaled, mutation " << i;
  }
  const void *odd = reinterpret_cast<const void *>(8);
  LtProblem misplaced = good;
  misplaced.aScale = odd;
  EXPECT_NE(checkLtAddresses(misplaced, {nullptr, nullptr, nullptr}), "");
  EXPECT_NE(checkLtAddresses(good, {odd, nullptr, nullptr}), "");
  EXPECT_NE(checkLtAddresses(good, {nullptr, odd, nullptr}), "");
  EXPECT_NE(checkLtAddresses(good, {nullptr, nullptr, odd}), "");
}

namespace {
/// x by rows and 128 elements of a row, W by 128 x 128: 256 is two blocks.
Product byBlocks() {
  Product p;
  p.k = 256;
  p.aScales = 2 * 32; // [2, m]
  p.bScales = 4;      // [ceil(48 / 128), 2 filled up to 4]
  p.more = {{"a_scale", 5},
            {"b_scale", 6},
            {"a_scaling", "vectors"},
            {"b_scaling", "blocks"}};
  return p;
}

Product byRows() {
  Product p;
  p.aScales = 32;
  p.bScales = 48;
  p.more = {{"a_scale", 5},
            {"b_scale", 6},
            {"a_scaling", "rows"},
            {"b_scaling", "rows"}};
  return p;
}
} // namespace

// For a row-major result the library's A is the command's b.
TEST(CudaGemm, ModesGoWithTheirOperand) {
  std::string line = matmuls(byBlocks());
  EXPECT_TRUE(contains(line, " a_scale=arena+13631488 b_scale=arena+12582912 "))
      << line;
  EXPECT_TRUE(contains(line, " scales=128x128,1x128\n")) << line;
  Product p = byBlocks();
  p.cStrides = {1, 32};
  line = matmuls(p);
  EXPECT_TRUE(contains(line, " a_scale=arena+12582912 b_scale=arena+13631488 "))
      << line;
  EXPECT_TRUE(contains(line, " scales=1x128,128x128\n")) << line;
  p = byBlocks();
  p.bScales = 2 * 48;
  p.more["b_scaling"] = "vectors";
  EXPECT_TRUE(contains(matmuls(p), " scales=1x128,1x128\n"));
  p = byRows();
  p.more["fast_accumulation"] = true;
  EXPECT_TRUE(contains(matmuls(p), " scales=rows,rows fast\n")) << matmuls(p);
  EXPECT_FALSE(contains(matmuls({}), "scales="));
}

TEST(CudaGemm, ModesTheLibraryHasNotAreRefused) {
  struct Case {
    const char *want;
    Product product;
  };
  std::vector<Case> cases;
  auto add = [&](const char *want, Product product) -> Product & {
    cases.push_back({want, std::move(product)});
    return cases.back().product;
  };
  Product &both =
      add("no product with scales by 128x128 and 128x128", byBlocks());
  both.aScales = 4;
  both.more["a_scaling"] = "blocks";
  Product &mixed = add("no product with scales by rows and scalar", byRows());
  mixed.more.erase("a_scale");
  mixed.more.erase("a_scaling");
  Product &unlike = add("no product with scales by rows and 1x128", byBlocks());
  unlike.bScales = 48;
  unlike.more["b_scaling"] = "rows";
  add("scales by blocks do not support fast accumulation", byBlocks())
      .more["fast_accumulation"] = true;
  Product &batched = add("a batch needs operands of one scale each", byRows());
  batched.batch = {{{"n", 2}, {"a", 2048}, {"b", 3072}, {"c", 1536}}};
  // Nor one after the other: the scales of other products are elsewhere.
  Product &walked =
      add("has a batch, and more than one scale per operand", byRows());
  walked.batch = {{{"n", 2}, {"a", 2048}, {"b", 0}, {"c", 1536}},
                  {{"n", 3}, {"a", 0}, {"b", 3072}, {"c", 4000}}};
  Product &odd = add("need m and n of multiples of 4", byBlocks());
  odd.m = 30;
  odd.aScales = 2 * 30;
  for (const Case &test : cases) {
    std::string got = matmuls(test.product);
    EXPECT_TRUE(contains(got, test.want)) << got << "\nwanted " << test.want;
    EXPECT_TRUE(contains(got, "gemm 'dot'")) << got;
  }
}

TEST(CudaGemm, OldLibrariesHaveNoModes) {
  for (const Product &product : {byRows(), byBlocks()}) {
    Product p = product;
    p.blasVersion = 120804;
    std::string got = matmuls(p);
    EXPECT_TRUE(contains(got, "gemm 'dot' at step/dot scales its operands by "
                              "rows or blocks, which cuBLASLt has from 12.9 on "
                              "(CUDA 12.9); this one is 12.8"))
        << got;
    p.blasVersion = 120900;
    EXPECT_EQ(matmuls(p).substr(0, 14), "cublasLtMatmul");
  }
  Product p;
  p.blasVersion = 120000;
  EXPECT_EQ(matmuls(p).substr(0, 14), "cublasLtMatmul");
}

// A search passes as many scales as the product reads.
TEST(CudaGemm, SearchHasAllScales) {
  Search search("2");
  Product p = byBlocks();
  p.m = 1024;
  p.aScales = 2 * 1024;
  std::string lines = matmuls(p);
  EXPECT_EQ(lines.substr(0, 14), "cublasLtMatmul");
}

TEST(CudaGemm, ManifestIsChecked) {
  auto error = [](auto edit) {
    Product p;
    edit(p);
    return matmuls(p);
  };
  struct Case {
    std::string got, want;
  } cases[] = {
      {error([](Product &p) { p.more["a_scale"] = 7; }),
       "step[0].a_scale is 7, but there are 7 buffers"},
      {error([](Product &p) { p.more["a_scale"] = -1; }), "a_scale is -1"},
      {error([](Product &p) { p.more["b_scale"] = 0; }),
       "b_scale is buffer 0 of type f8E4M3FN[1048576], not one f32"},
      {error([](Product &p) {
         p.a = p.b = "bf16";
         p.more["a_scale"] = 3;
       }),
       "a_scale scales an operand of type bf16"},
      {error([](Product &p) { p.more["a_scaling"] = "columns"; }),
       "a_scaling is 'columns', not tensor, rows, vectors or blocks"},
      {error([](Product &p) { p.more["b_scaling"] = "rows"; }),
       "b_scaling has no b_scale beside it"},
      {error([](Product &p) {
         p = byBlocks();
         p.aScales = 32;
       }),
       "a_scale is buffer 5 of type f32[32], not 64 f32"},
      {error([](Product &p) {
         p = byBlocks();
         p.bScales = 2;
       }),
       "b_scale is buffer 6 of type f32[2], not 4 f32"},
      {error([](Product &p) { p.more["compute"] = "f16"; }),
       "compute is 'f16', neither f32 nor tf32"},
      {error([](Product &p) { p.more["compute"] = "tf32"; }),
       "compute is 'tf32', which is for f32 operands"},
      {error([](Product &p) { p.more["fast_accumulation"] = 1; }),
       "fast_accumulation must be true or false"},
      {error([](Product &p) {
         p.a = p.b = "f16";
         p.more["fast_accumulation"] = true;
       }),
       "fast_accumulation is for FP8 operands"},
      {error([](Product &p) {
         p.a = p.b = "bf16";
         p.c = "f8E4M3FN";
       }),
       "the result must have the operands' type or be f32"},
      {error([](Product &p) { p.a = "i8"; }), "convert it first"},
      // In elements, by each operand's width.
      {error([](Product &p) { p.aOffset = (1 << 20) - 32 * 64 + 1; }),
       "a reaches past the end of buffer 0 of type f8E4M3FN[1048576]"},
  };
  for (const Case &test : cases)
    EXPECT_TRUE(contains(test.got, test.want)) << test.got;
  EXPECT_EQ(
      error([](Product &p) { p.aOffset = (1 << 20) - 32 * 64; }).substr(0, 14),
      "cublasLtMatmul");
}

namespace {
/// Returns the lines of loading and running gpuArtefact().
std::string searchedLines() {
  Recorded gpu;
  gpu.run();
  return gpu.newLines();
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}
} // namespace

TEST(CudaGemm, SearchMeasuresAndKeepsTheFastest) {
  Search search("4");
  const std::string file = search.file();
  // Four runs of each of four candidates, and the step's own run.
  EXPECT_EQ(countOf(searchedLines(), "cublasLtMatmul a="), 17u);
  Json kept = Json::parse(readFile(file));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.begin().key(),
            "recording, cuBLASLt 130000, 4: TN m=32 n=48 k=64 a=f8E5M2 ld=64 "
            "b=f8E4M3FN ld=64 d=bf16 ld=32 batch=1 compute=f32 fast");
  EXPECT_EQ(kept.begin().value()[0], 3);
  EXPECT_EQ(countOf(searchedLines(), "cublasLtMatmul a="), 1u);
  // After a damaged file, or an algorithm that is no candidate, it measures
  // again.
  std::ofstream(file) << "{\"x\": 1";
  EXPECT_EQ(countOf(searchedLines(), "cublasLtMatmul a="), 17u);
  kept.begin().value()[0] = 9;
  std::ofstream(file) << kept;
  EXPECT_EQ(countOf(searchedLines(), "cublasLtMatmul a="), 17u);
}

TEST(CudaGemm, SearchNeedsANumber) {
  Search search("many");
  EXPECT_EQ(matmuls({}), "SCALIFY_GEMM_SEARCH must be 1 to 100, not 'many'");
}
