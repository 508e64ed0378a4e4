// Results of FP8: the requests to cuBLASLt, and the refusals.
#include "GpuArtefact.h"
#include "device/cuda/LtContract.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;
using namespace scalify::rt::test;

namespace {
/// C of 32 x 48 = A B, with its scale and amax.
struct Product {
  const char *a = "f8E4M3FN", *b = "f8E4M3FN", *c = "f8E4M3FN";
  int64_t m = 32, n = 48;
  Json more = {{"c_scale", 3}, {"amax", 4}};
  std::vector<int64_t> strides = {48, 1};
  Json batch = Json::array();
};

Json manifestOf(const Product &p) {
  const int64_t room = 1 << 20, k = 64;
  Json m = gpuManifest();
  m["arena_bytes"] = 14 * room;
  m["buffers"] = {buffer("temp", 0, {room}, p.a),
                  buffer("temp", 4 * room, {room}, p.b),
                  buffer("temp", 8 * room, {room}, p.c),
                  buffer("const", 0, {}),
                  buffer("temp", 12 * room, {}),
                  buffer("temp", 13 * room, {2}),
                  buffer("temp", 10 * room, {128}, "bf16")};
  Json gemm = {{"op", "gemm"},
               {"name", "dot"},
               {"loc", "step/dot"},
               {"m", p.m},
               {"n", p.n},
               {"k", k},
               {"a", 0},
               {"b", 1},
               {"c", 2},
               {"batch", p.batch},
               {"a_strides", {k, 1}},
               {"b_strides", {1, k}},
               {"c_strides", p.strides}};
  gemm.update(p.more);
  m["functions"]["step"] = {gemm};
  return m;
}

std::string matmuls(const Product &p) { return matmulsOf(manifestOf(p)); }
} // namespace

// The library takes C as BF16 in D's memory, and does not read it.
TEST(CudaResult, ScaleAndAmaxAreTheLibrarys) {
  Product p;
  EXPECT_EQ(matmuls(p),
            "cublasLtMatmul a=arena+4194304 b=arena+0 d=arena+8388608 "
            "a_scale=one+0 b_scale=one+0 d_scale=const+0 "
            "amax=arena+12582912 alpha=1 beta=0 | TN m=48 n=32 k=64 "
            "a=f8E4M3FN ld=64 b=f8E4M3FN ld=64 d=f8E4M3FN ld=48 batch=1 "
            "compute=f32 c=bf16 scaled amax\n");
  p.more = Json::object();
  EXPECT_TRUE(contains(matmuls(p), " compute=f32 c=bf16\n")) << matmuls(p);
  p.more = {{"epilogue", "bias_relu"}, {"bias", 6}, {"c_scale", 3}};
  EXPECT_TRUE(contains(matmuls(p), " relu c=bf16 scaled bias=bf16\n"))
      << matmuls(p);
}

// A column-major result is the library's product of the operands in order.
TEST(CudaResult, ColumnsMayBeStored) {
  Product p;
  p.strides = {1, 32};
  EXPECT_TRUE(contains(matmuls(p), "| TN m=32 n=48 k=64 ")) << matmuls(p);
  EXPECT_TRUE(contains(matmuls(p), " d=f8E4M3FN ld=32 ")) << matmuls(p);
}

// The manual's table of types, row by row.
TEST(CudaResult, TypesAreTheManuals) {
  const char *const e4m3 = "f8E4M3FN", *const e5m2 = "f8E5M2";
  for (const auto &[a, b, c, is] :
       {std::tuple{e4m3, e4m3, e4m3, true}, std::tuple{e4m3, e4m3, e5m2, false},
        std::tuple{e4m3, e5m2, e4m3, true}, std::tuple{e4m3, e5m2, e5m2, true},
        std::tuple{e5m2, e4m3, e4m3, true}, std::tuple{e5m2, e4m3, e5m2, true},
        std::tuple{e5m2, e5m2, e5m2, false}}) {
    Product p;
    p.a = a;
    p.b = b;
    p.c = c;
    EXPECT_EQ(contains(matmuls(p), " c=bf16 scaled amax\n"), is)
        << a << " x " << b << " into " << c << ": " << matmuls(p);
  }
}

// The contract, with one mutation at a time of a valid product.
TEST(CudaResult, ContractCatchesEveryMutation) {
  alignas(16) const float place[8] = {};
  LtProblem good;
  good.opA = OpT;
  good.a = {R8F_E4M3, 64, 48, 64, 1, 0};
  good.b = {R8F_E5M2, 64, 32, 64, 1, 0};
  good.d = {R8F_E4M3, 48, 32, 48, 1, 0};
  good.cType = R16F;
  good.aScale = good.bScale = good.dScale = good.amax = place;
  BlasStatus status = BlasSuccess;
  ASSERT_EQ(ltViolation(good, status), "");
  using Mutation = void (*)(LtProblem &);
  const Mutation mutations[] = {
      [](LtProblem &p) { p.cType = R32F; },
      [](LtProblem &p) { p.cType = std::nullopt; },
      [](LtProblem &p) { p.d.type = R16BF; },
      [](LtProblem &p) {
        p.d.type = R16BF; // the scale stays
        p.cType = std::nullopt;
      },
      [](LtProblem &p) { p.d.leading = 56; },
      [](LtProblem &p) { p.d.rows = p.a.cols = p.d.leading = 40; },
      [](LtProblem &p) { p.aMode = p.bMode = ScaleOuterVec; },
      [](LtProblem &p) {
        p.a.batch = p.b.batch = p.d.batch = 2;
        p.a.batchStride = p.b.batchStride = p.d.batchStride = 4096;
      },
      [](LtProblem &p) {
        p.epilogue = EpilogueGELUAux;
        p.aux = p.amax;
        p.auxLeading = 48;
      },
      [](LtProblem &p) { p.a.type = p.b.type = R16BF; },
  };
  for (size_t i = 0; i < sizeof(mutations) / sizeof(mutations[0]); ++i) {
    LtProblem bad = good;
    mutations[i](bad);
    EXPECT_NE(ltViolation(bad, status), "") << "mutation " << i;
    EXPECT_NE(status, BlasSuccess);
  }
}

TEST(CudaResult, ManifestIsChecked) {
  auto error = [](auto edit) {
    Product p;
    edit(p);
    return matmuls(p);
  };
  struct Case {
    std::string got, want;
  } cases[] = {
      {error([](Product &p) { p.c = "bf16"; }),
       "c_scale is of a result of type bf16; only FP8 results have one"},
      {error([](Product &p) { p.more["c_scale"] = 5; }),
       "c_scale is buffer 5 of type f32[2], not one f32"},
      {error([](Product &p) { p.more["amax"] = 6; }),
       "amax is buffer 6 of type bf16[128], not one f32"},
      {error([](Product &p) { p.more["amax"] = 3; }), "amax"},
      {error([](Product &p) { p.more["amax"] = 7; }),
       "amax is 7, but there are 7 buffers"},
      {error([](Product &p) { p.more["beta"] = 1.0; }),
       "beta adds to a result of FP8, which is overwritten"},
      {error([](Product &p) { p.n = p.strides[0] = 40; }),
       "FP8 needs rows of the result of a multiple of 16 bytes, not 40"},
      {error([](Product &p) {
         p.batch = {{{"n", 2}, {"a", 2048}, {"b", 0}, {"c", 1536}}};
       }),
       "the amax of a result needs one product and no batch"},
  };
  for (const Case &test : cases) {
    EXPECT_TRUE(contains(test.got, test.want)) << test.got;
    EXPECT_FALSE(contains(test.got, "cublasLtMatmul a=")) << test.got;
  }
}

TEST(CudaResult, SearchHasItsNumbers) {
  Search search("2");
  std::string lines = matmuls({});
  EXPECT_TRUE(contains(lines, " scaled amax\n")) << lines;
}
