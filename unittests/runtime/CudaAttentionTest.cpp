// Attentions as passed to cuDNN, and those that its contract refuses.
#include "GpuArtefact.h"
#include "device/cuda/AttentionContract.h"
#include "support/Error.h"

#include <gtest/gtest.h>

#include <array>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
constexpr int64_t room = 1 << 16; // bytes of each buffer

/// Two batches, four heads over two key heads, 16 rows of 32 channels.
constexpr std::array<int64_t, 4> qWindow = {0, 2048, 32, 128};
constexpr std::array<int64_t, 4> kWindow = {0, 1024, 32, 64};

/// A step of one attention, each buffer at a multiple of `room`.
Json manifestOf(bool isGradient, const char *type = "bf16") {
  Json m = gpuManifest();
  size_t reads = isGradient ? 6 : 3, count = isGradient ? 9 : 5;
  size_t statistics = isGradient ? 5 : 4;
  Json command = {{"op", "attention"},
                  {"name", isGradient ? "attention_grad" : "attention"},
                  {"loc", "step/attention"},
                  {"sizes", {2, 4, 2, 16, 16, 32}},
                  {"scale", 0.125},
                  {"causal", true},
                  {"gradient", isGradient}};
  m["arena_bytes"] = int64_t(count) * room;
  m["buffers"] = Json::array();
  for (size_t i = 0; i < count; ++i) {
    bool isStatistics = i == statistics;
    m["buffers"].push_back(buffer("temp", int64_t(i) * room,
                                  {room / (isStatistics ? 4 : 2)},
                                  isStatistics ? "f32" : type));
    command[i < reads ? "reads" : "writes"].push_back(i);
    if (isStatistics)
      continue;
    bool isKeySide = i == 1 || i == 2 || i >= 7;
    for (int64_t number : isKeySide ? kWindow : qWindow)
      command["windows"].push_back(number);
  }
  m["functions"]["step"] = {command};
  return m;
}

Json &commandOf(Json &manifest) { return manifest["functions"]["step"][0]; }

/// Returns the lines of a step, or the error.
std::string lines(const Json &manifest) {
  try {
    Recorded gpu(pack(manifest, gpuKernels(), gpuConstants()));
    gpu.run();
    return linesOf(gpu.newLines(), "cudnn");
  } catch (const Error &error) {
    return error.what();
  }
}

/// Returns the error after one number of the windows is replaced.
std::string withWindow(size_t at, int64_t number) {
  Json m = manifestOf(false);
  commandOf(m)["windows"][at] = number;
  return lines(m);
}
} // namespace

TEST(CudaAttention, ForwardIsRecorded) {
  EXPECT_EQ(lines(manifestOf(false)),
            "cudnnExecute attention q=arena+0 k=arena+65536 v=arena+131072 "
            "o=arena+196608 stats=arena+262144 | b=2 h=4 hk=2 q=16 k=16 d=32 "
            "bf16 scale=0.125 causal\n");
}

TEST(CudaAttention, GradientIsRecorded) {
  Json m = manifestOf(true, "f16");
  commandOf(m)["causal"] = false;
  EXPECT_EQ(lines(m),
            "cudnnExecute attention_grad q=arena+0 k=arena+65536 "
            "v=arena+131072 o=arena+196608 do=arena+262144 stats=arena+327680 "
            "dq=arena+393216 dk=arena+458752 dv=arena+524288 | b=2 h=4 hk=2 "
            "q=16 k=16 d=32 f16 scale=0.125\n");
}

// All attentions share one workspace: F32 sums of dq, and one number per row.
TEST(CudaAttention, WorkspaceIsTakenAtLoad) {
  Json m = manifestOf(true);
  Recorded gpu(pack(m, gpuKernels(), gpuConstants()));
  EXPECT_NE(gpu.driver->find("attention workspace"), nullptr);
  EXPECT_TRUE(contains(gpu.newLines(), std::to_string(2 * 4 * 16 * 33 * 4)));
}

TEST(CudaAttention, ReplaysInAGraph) {
  Recorded gpu(pack(manifestOf(false), gpuKernels(), gpuConstants()));
  gpu.run();
  gpu.run();
  gpu.newLines();
  gpu.run();
  std::string replayed = gpu.newLines();
  EXPECT_TRUE(contains(replayed, "cuGraphLaunch"));
  EXPECT_FALSE(contains(replayed, "cudnnExecute "));
}

TEST(CudaAttention, ContractIsCheckedAtLoad) {
  EXPECT_TRUE(contains(lines(manifestOf(false, "f32")),
                       "matrices must be bf16 or f16, not f32"));
  Json m = manifestOf(false);
  commandOf(m)["sizes"] = {1, 1, 1, 16, 16, 256};
  EXPECT_TRUE(contains(lines(m), "at most 128, not 256"));
  commandOf(m)["sizes"] = {1, 1, 1, 16, 16, 12};
  EXPECT_TRUE(contains(lines(m), "a multiple of 8 channels"));
  commandOf(m)["sizes"] = {2, 4, 2, 16, 8, 32};
  EXPECT_TRUE(contains(lines(m), "as many queries as keys"));
  std::string error = withWindow(3, 132);
  EXPECT_TRUE(contains(error, "matrix q must lie in steps of 16 bytes, not "
                              "264"));
  EXPECT_TRUE(contains(error, "step/attention"));
  EXPECT_TRUE(contains(error, "h=4 hk=2"));
}

// The loader accepts only multiples of 64.
TEST(CudaAttention, PlacesAreChecked) {
  alignas(16) char memory[64];
  std::vector<void *> buffers(5, memory);
  AttentionShape shape;
  EXPECT_EQ(cuda::checkAttentionAddresses(shape, buffers.data()), "");
  buffers[2] = memory + 8;
  EXPECT_EQ(cuda::checkAttentionAddresses(shape, buffers.data()),
            "buffer v is not at a multiple of 16 bytes");
}

TEST(CudaAttention, DamagedManifestsAreRefused) {
  EXPECT_TRUE(contains(withWindow(0, 1 << 20), "reaches past the end"));
  EXPECT_TRUE(contains(withWindow(1, int64_t(1) << 50), "reaches past"));
  EXPECT_TRUE(contains(withWindow(2, -8), "must be at least 0"));
  Json m = manifestOf(false);
  commandOf(m)["sizes"] = {2, 3, 2, 16, 16, 32};
  EXPECT_TRUE(contains(lines(m), "no multiple of the key heads"));
  commandOf(m)["sizes"] = {2, 4, 2, 16, 16};
  EXPECT_TRUE(contains(lines(m), "must hold batch, heads"));
  m = manifestOf(false);
  commandOf(m)["reads"] = {0, 1};
  EXPECT_TRUE(contains(lines(m), "must name 3 buffers"));
  m = manifestOf(false);
  m["buffers"][4]["shape"] = {64};
  EXPECT_TRUE(contains(lines(m), "not an f32 for each row"));
  m = manifestOf(false);
  m["buffers"][1]["dtype"] = "f16";
  EXPECT_TRUE(contains(lines(m), "not bf16"));
}

TEST(CudaAttention, FailuresNameTheCommand) {
  std::string error;
  for (uint64_t call = 0; call < 200 && !contains(error, "cudnnExecute");
       ++call) {
    Recorded gpu(pack(manifestOf(false), gpuKernels(), gpuConstants()));
    gpu.driver->failAfter(call);
    try {
      gpu.run();
    } catch (const Error &failure) {
      error = failure.what();
    }
  }
  EXPECT_TRUE(contains(error, "cudnnExecute failed in attention 'attention' "
                              "at step/attention"));
}
