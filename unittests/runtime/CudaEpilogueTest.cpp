// Epilogues of products: the requests to cuBLASLt, and the refusals.
#include "GpuArtefact.h"
#include "device/cuda/LtContract.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::cuda;
using namespace scalify::rt::test;

namespace {
/// C of 32 x 48 = A B, and a bias that does not start its buffer.
struct Product {
  const char *operand = "bf16", *result = "bf16", *bias = "bf16";
  int64_t k = 64, elements = 128;
  Json more = {{"epilogue", "bias_relu"}, {"bias", 3}, {"bias_off", 16}};
  Json batch = Json::array();
};

Json manifestOf(const Product &p) {
  const int64_t room = 1 << 20;
  Json m = gpuManifest();
  m["arena_bytes"] = 17 * room;
  m["buffers"] = {buffer("temp", 0, {room}, p.operand),
                  buffer("temp", 4 * room, {room}, p.operand),
                  buffer("temp", 8 * room, {room}, p.result),
                  buffer("temp", 12 * room, {p.elements}, p.bias),
                  buffer("temp", 13 * room, {room}, p.result),
                  buffer("temp", 16 * room, {32, 16}, "ui8")};
  Json gemm = {{"op", "gemm"},
               {"name", "dot"},
               {"loc", "step/dot"},
               {"m", 32},
               {"n", 48},
               {"k", p.k},
               {"a", 0},
               {"b", 1},
               {"c", 2},
               {"batch", p.batch},
               {"a_strides", {p.k, 1}},
               {"b_strides", {1, p.k}},
               {"c_strides", {48, 1}}};
  gemm.update(p.more);
  m["functions"]["step"] = {gemm};
  return m;
}

std::string matmuls(const Product &p) { return matmulsOf(manifestOf(p)); }

std::string errorOf(const Json &manifest) {
  Handle exe = load(pack(manifest, gpuKernels(), gpuConstants()), 0,
                    SCALIFY_RT_DEVICE_NULL);
  return exe ? "" : scalify_rt_last_error();
}
} // namespace

// The bias has an element for each of our columns, which are cuBLASLt's rows.
TEST(CudaEpilogue, IsAskedOfTheLibrary) {
  Product p;
  EXPECT_EQ(matmuls(p),
            "cublasLtMatmul a=arena+4194304 b=arena+0 d=arena+8388608 alpha=1 "
            "beta=0 bias=arena+12582944 | TN m=48 n=32 k=64 a=bf16 ld=64 "
            "b=bf16 ld=64 d=bf16 ld=48 batch=1 compute=f32 relu bias=bf16\n");
  p.more["epilogue"] = "bias";
  EXPECT_TRUE(contains(matmuls(p), " compute=f32 bias=bf16\n"));
  p.more = {{"epilogue", "relu"}};
  EXPECT_TRUE(contains(matmuls(p), " beta=0 | ")) << matmuls(p);
  EXPECT_TRUE(contains(matmuls(p), " compute=f32 relu\n")) << matmuls(p);
  p.more = {{"epilogue", "none"}};
  EXPECT_TRUE(contains(matmuls(p), " compute=f32\n")) << matmuls(p);
}

// All products of a batch add the same bias.
TEST(CudaEpilogue, BatchesShareTheBias) {
  Product p;
  p.batch = {{{"n", 3}, {"a", 2048}, {"b", 0}, {"c", 1536}},
             {{"n", 2}, {"a", 0}, {"b", 3072}, {"c", 50000}}};
  std::string lines = matmuls(p);
  size_t count = 0;
  for (size_t at = 0;
       (at = lines.find(" bias=arena+12582944 ", at)) != std::string::npos;
       ++at)
    ++count;
  EXPECT_EQ(count, 2u) << lines;
}

// The operand of a GELU is stored in the result's layout, for each product of a
// batch.
TEST(CudaEpilogue, GELUStoresWhatItReads) {
  Product p;
  p.more["epilogue"] = "bias_gelu";
  EXPECT_TRUE(contains(matmuls(p), " compute=f32 gelu bias=bf16\n"));
  p.more["aux"] = 4;
  std::string line = matmuls(p);
  EXPECT_TRUE(contains(line, " bias=arena+12582944 aux=arena+13631488 | "));
  EXPECT_TRUE(contains(line, " compute=f32 gelu aux=48 bias=bf16\n")) << line;
  p.more = {{"epilogue", "gelu"}, {"aux", 4}};
  p.batch = {{{"n", 3}, {"a", 2048}, {"b", 0}, {"c", 1536}},
             {{"n", 2}, {"a", 0}, {"b", 3072}, {"c", 50000}}};
  line = matmuls(p);
  EXPECT_TRUE(contains(line, " beta=0 aux=arena+13631488 | ")) << line;
  EXPECT_TRUE(contains(line, " beta=0 aux=arena+13731488 | ")) << line;
}

// For a ReLU one bit per element, in rows of 128 bits: our rows are cuBLASLt's
// columns.
TEST(CudaEpilogue, ReLUStoresItsBits) {
  Product p;
  p.more["aux"] = 5;
  std::string line = matmuls(p);
  EXPECT_TRUE(contains(line, " bias=arena+12582944 aux=arena+16777216 | "));
  EXPECT_TRUE(contains(line, " relu aux=128 bias=bf16\n")) << line;
  p.more = {{"epilogue", "relu"}, {"aux", 5}};
  EXPECT_TRUE(contains(matmuls(p), " compute=f32 relu aux=128\n"));
  // A mask of rows without elements has none.
  p.more["n"] = 0;
  EXPECT_TRUE(contains(errorOf(manifestOf(p)),
                       "not the bits of 32 rows in 0 bytes each"));
}

// The gradient reads the forward's buffer in place, which may be read-only.
TEST(CudaEpilogue, GradientsReadWhatWasStored) {
  Product p;
  p.more = {{"epilogue", "gelu_grad"}, {"saved", 4}};
  std::string line = matmuls(p);
  EXPECT_TRUE(contains(line, " beta=0 aux=arena+13631488 | ")) << line;
  EXPECT_TRUE(contains(line, " compute=f32 dgelu aux=48\n")) << line;
  p.batch = {{{"n", 3}, {"a", 2048}, {"b", 0}, {"c", 1536}},
             {{"n", 2}, {"a", 0}, {"b", 3072}, {"c", 50000}}};
  line = matmuls(p);
  EXPECT_TRUE(contains(line, " beta=0 aux=arena+13731488 | ")) << line;
  p.batch = Json::array();
  p.more = {{"epilogue", "relu_grad"}, {"saved", 5}};
  line = matmuls(p);
  EXPECT_TRUE(contains(line, " beta=0 aux=arena+16777216 | ")) << line;
  EXPECT_TRUE(contains(line, " compute=f32 drelu aux=128\n")) << line;
}

// The manual's tables, row by row.
TEST(CudaEpilogue, TypesAreTheManuals) {
  const DataType table[][3] = {
      {R16BF, R16BF, R16BF},    {R16F, R16F, R16F},
      {R16BF, R32F, R32F},      {R16F, R32F, R32F},
      {R32F, R32F, R32F},       {R8F_E4M3, R16BF, R16BF},
      {R8F_E4M3, R16F, R16F},   {R8F_E4M3, R32F, R16BF},
      {R8F_E5M2, R16BF, R16BF}, {R8F_E5M2, R16F, R16F},
      {R8F_E5M2, R32F, R16BF},  {R8F_E4M3, R8F_E4M3, R16BF},
  };
  for (const auto &[operand, result, bias] : table)
    EXPECT_EQ(ltBiasType(operand, result), bias)
        << nameOf(operand) << " into " << nameOf(result);
  for (const auto &[operand, result, bias, wanted] :
       {std::array{"f8E4M3FN", "f32", "bf16", ""},
        std::array{"f8E4M3FN", "f32", "f32",
                   "f8E4M3FN into f32 takes a bias of bf16, not f32"},
        std::array{"f8E4M3FN", "f16", "f16", ""},
        std::array{"bf16", "f32", "f32", ""},
        std::array{"bf16", "bf16", "f32",
                   "bf16 into bf16 takes a bias of bf16, not f32"},
        std::array{"f32", "f32", "bf16",
                   "f32 into f32 takes a bias of f32, not bf16"}}) {
    Product p;
    p.operand = operand;
    p.result = result;
    p.bias = bias;
    std::string got = matmuls(p);
    if (*wanted)
      EXPECT_TRUE(contains(got, wanted) && contains(got, "--epilogues=none"))
          << got;
    else
      EXPECT_TRUE(contains(got, std::string(" relu bias=") + bias)) << got;
  }
}

// The contract, with one mutation at a time of a valid product.
TEST(CudaEpilogue, ContractCatchesEveryMutation) {
  alignas(16) const float place[8] = {};
  LtProblem good;
  good.opA = OpT;
  good.a = {R8F_E4M3, 64, 48, 64, 1, 0};
  good.b = {R8F_E5M2, 64, 32, 64, 1, 0};
  good.d = {R32F, 48, 32, 48, 1, 0};
  good.aScale = good.bScale = good.bias = place;
  good.epilogue = EpilogueReLUBias;
  good.biasType = R16BF;
  BlasStatus status = BlasSuccess;
  ASSERT_EQ(ltViolation(good, status), "");
  ASSERT_EQ(checkLtAddresses(good, {nullptr, nullptr, nullptr}), "");
  using Mutation = void (*)(LtProblem &);
  const Mutation mutations[] = {
      [](LtProblem &p) { p.bias = nullptr; },
      [](LtProblem &p) { p.biasType = R32F; },
      [](LtProblem &p) { p.biasType = R16F; },
      [](LtProblem &p) { p.epilogue = EpilogueDefault; },
      [](LtProblem &p) { p.epilogue = EpilogueReLU; },
      [](LtProblem &p) { p.epilogue = LtEpilogue(68); },
      [](LtProblem &p) { p.epilogue = EpilogueGELUAuxBias; },
      [](LtProblem &p) { p.aux = p.bias; },
      [](LtProblem &p) { p.aMode = p.bMode = ScaleOuterVec; },
      [](LtProblem &p) {
        p.a.batch = p.b.batch = p.d.batch = 2;
        p.a.batchStride = p.b.batchStride = p.d.batchStride = 4096;
      },
      [](LtProblem &p) { p.a.type = p.b.type = R16BF; },
  };
  for (size_t i = 0; i < sizeof(mutations) / sizeof(mutations[0]); ++i) {
    LtProblem bad = good;
    mutations[i](bad);
    EXPECT_NE(ltViolation(bad, status), "") << "mutation " << i;
    EXPECT_NE(status, BlasSuccess);
  }
  good.epilogue = EpilogueGELUAuxBias;
  good.aux = place;
  good.auxLeading = 48;
  ASSERT_EQ(ltViolation(good, status), "");
  const Mutation stored[] = {
      [](LtProblem &p) { p.aux = nullptr; },
      [](LtProblem &p) { p.auxLeading = 40; },
      [](LtProblem &p) { p.auxLeading = 52; },
      [](LtProblem &p) { p.epilogue = EpilogueGELUBias; },
  };
  for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); ++i) {
    LtProblem bad = good;
    stored[i](bad);
    EXPECT_NE(ltViolation(bad, status), "") << "stored, mutation " << i;
  }
  good.epilogue = EpilogueDGELU;
  good.bias = nullptr;
  EXPECT_EQ(ltViolation(good, status), "");
  good.bias = place;
  // Bits need rows of 128, and gradients their forward's `aux`.
  good.epilogue = EpilogueReLUAuxBias;
  good.auxLeading = 128;
  EXPECT_TRUE(contains(ltViolation(good, status),
                       "FP8 products store and read no mask of a ReLU"));
  good.a.type = good.b.type = R16BF;
  good.aScale = good.bScale = nullptr;
  good.biasType = R32F;
  good.auxLeading = 48;
  EXPECT_TRUE(contains(ltViolation(good, status),
                       "the mask of a ReLU needs a leading dimension of a "
                       "multiple of 128 and at least the rows, not 48"));
  good.auxLeading = 128;
  EXPECT_EQ(ltViolation(good, status), "");
  EXPECT_EQ(ltAuxBytes(good), 31u * 16u + 48u / 8u);
  good.bias = nullptr;
  for (LtEpilogue epilogue : {EpilogueDReLU, EpilogueDGELU}) {
    good.epilogue = epilogue;
    EXPECT_EQ(ltViolation(good, status), "");
    LtProblem bad = good;
    bad.aux = nullptr;
    EXPECT_NE(ltViolation(bad, status), "") << epilogue;
    bad = good;
    bad.bias = place;
    EXPECT_NE(ltViolation(bad, status), "") << epilogue;
  }
  good.epilogue = EpilogueGELUAuxBias;
  good.aux = place + 1;
  EXPECT_EQ(checkLtAddresses(good, {nullptr, nullptr, nullptr}),
            "the operand of a GELU is not at a multiple of 16 bytes");
  good.bias = place + 2;
  EXPECT_EQ(checkLtAddresses(good, {nullptr, nullptr, nullptr}),
            "the bias is not at a multiple of 16 bytes");
}

// At load the heuristic gets an address with the alignment of every step's: 16
// bytes into a buffer is no multiple of 32.
TEST(CudaEpilogue, HeuristicSeesTheAlignment) {
  for (int64_t offset : {0, 8, 16, 32, 64, 80}) {
    Product p;
    p.more["bias_off"] = offset;
    EXPECT_TRUE(contains(matmuls(p), " bias=bf16\n")) << offset << matmuls(p);
  }
  Product p;
  p.more["bias_off"] = 4;
  EXPECT_TRUE(
      contains(matmuls(p), "the bias is not at a multiple of 16 bytes"));
}

TEST(CudaEpilogue, SearchHasTheBias) {
  Search search("2");
  Product p;
  p.elements = 1 << 16;
  p.more["bias_off"] = (1 << 16) - 48;
  std::string lines = matmuls(p);
  EXPECT_TRUE(contains(lines, " relu bias=bf16\n")) << lines;
}

TEST(CudaEpilogue, ManifestIsChecked) {
  auto error = [](auto edit) {
    Product p;
    Json more = Json::object();
    edit(p, more);
    Json m = manifestOf(p);
    m["functions"]["step"][0].update(more);
    return errorOf(m);
  };
  struct Case {
    std::string got, want;
  } cases[] = {
      {error([](Product &, Json &j) { j["epilogue"] = "silu"; }),
       "epilogue is 'silu', not none, bias, relu, bias_relu, gelu, "
       "bias_gelu, relu_grad or gelu_grad"},
      {error([](Product &p, Json &j) {
         p.more["epilogue"] = "bias";
         j["aux"] = 4;
       }),
       "aux has no ReLU or GELU that stores it"},
      {error([](Product &, Json &j) { j["aux"] = 4; }),
       "aux is of type bf16[1048576], not the bits of 32 rows in 16 bytes "
       "each"},
      {error([](Product &, Json &j) { j["saved"] = 4; }),
       "saved has no gradient that reads it"},
      {error([](Product &p, Json &) { p.more = {{"epilogue", "gelu_grad"}}; }),
       "saved is missing"},
      {error([](Product &p, Json &) {
         p.more = {{"epilogue", "relu_grad"}, {"saved", 5}};
         p.batch = {{{"n", 2}, {"a", 2048}, {"b", 0}, {"c", 1536}}};
       }),
       "saved must be the mask of one product"},
      {error([](Product &, Json &j) {
         j["epilogue"] = "bias_gelu";
         j["aux"] = 3;
       }),
       "aux is of type bf16[128], which is not laid out like the result "
       "of bf16[1048576]"},
      {error([](Product &, Json &j) {
         j["epilogue"] = "bias_gelu";
         j["aux"] = 4;
         j["c_off"] = 8;
       }),
       "aux is of type bf16[1048576], which is not laid out like"},
      {error([](Product &, Json &j) { j["epilogue"] = "relu"; }),
       "bias has no epilogue that adds it"},
      {error([](Product &p, Json &) { p.more.erase("bias"); }),
       "bias is missing"},
      {error([](Product &, Json &j) { j["bias"] = 6; }),
       "bias is 6, but there are 6 buffers"},
      {error([](Product &, Json &j) { j["bias_off"] = 81; }),
       "bias reaches past the end of buffer 3 of type bf16[128]"},
      {error([](Product &, Json &j) { j["bias_off"] = -1; }),
       "bias_off must be at least 0"},
      {error([](Product &p, Json &) { p.elements = 47; }),
       "bias reaches past the end of buffer 3 of type bf16[47]"},
      {error([](Product &p, Json &) { p.bias = "i32"; }),
       "bias is buffer 3 of type i32[128], which no product adds"},
      {error([](Product &, Json &j) { j["c_strides"] = {1, 32}; }),
       "bias is added to rows that are not contiguous"},
  };
  for (const Case &test : cases)
    EXPECT_TRUE(contains(test.got, test.want)) << test.got;
}

TEST(CudaEpilogue, ACpuHasNone) {
  Json m = tinyManifest(64);
  m["functions"]["step"] = {{{"op", "gemm"},
                             {"name", "dot"},
                             {"m", 4},
                             {"n", 4},
                             {"k", 4},
                             {"a", 0},
                             {"b", 1},
                             {"c", 3},
                             {"a_strides", {4, 1}},
                             {"b_strides", {4, 1}},
                             {"c_strides", {4, 1}}}};
  EXPECT_TRUE(load(pack(m, kernels(), ""))) << scalify_rt_last_error();
  m["functions"]["step"][0]["epilogue"] = "relu";
  EXPECT_FALSE(load(pack(m, kernels(), "")));
  EXPECT_TRUE(contains(scalify_rt_last_error(),
                       "gemm 'dot' has an epilogue, which a CPU lacks"))
      << scalify_rt_last_error();
}
