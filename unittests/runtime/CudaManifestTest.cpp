// Damaged artefacts for a GPU, and machines without one.
#include "GpuArtefact.h"
#include "device/cuda/Driver.h"
#include "support/Error.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
std::string errorOf(const std::string &artefact) {
  Handle exe = load(artefact, 0, SCALIFY_RT_DEVICE_NULL);
  return exe ? "" : scalify_rt_last_error();
}

std::string artefactWithCubin() {
  return pack(gpuManifest(), gpuKernels(), gpuConstants(), "\177ELFcubin");
}

size_t manifestEnd(const std::string &artefact) {
  return 32 + (uint8_t(artefact[8]) | size_t(uint8_t(artefact[9])) << 8);
}
} // namespace

TEST(CudaManifest, TruncatedAtEveryLength) {
  std::string whole = artefactWithCubin();
  ASSERT_EQ(errorOf(whole), "");
  for (size_t size = 0; size < whole.size(); size += 1 + size / 64)
    EXPECT_TRUE(contains(errorOf(whole.substr(0, size)), "truncated")) << size;
  // The same with a corrected header: then sections are outside the file.
  for (size_t size = manifestEnd(whole); size < whole.size(); size += 61) {
    std::string cut = whole.substr(0, size);
    reseal(cut);
    EXPECT_TRUE(contains(errorOf(cut), "lies outside the file")) << size;
  }
}

// Any byte may change: the result is an error, or a step on a device that
// refuses every address outside its allocations.
TEST(CudaManifest, FlippedWithRightChecksum) {
  std::string whole = artefactWithCubin();
  std::vector<float> params(1 << 14), batch(1 << 14), loss(1 << 14);
  int loaded = 0, ran = 0;
  for (size_t at = 32; at < manifestEnd(whole); ++at)
    for (char byte : {'0', '9', '-', '"', '{', ']'}) {
      std::string bad = whole;
      bad[at] = byte;
      reseal(bad);
      Handle exe = load(bad, 0, SCALIFY_RT_DEVICE_NULL);
      if (!exe) {
        ASSERT_STRNE(scalify_rt_last_error(), "");
        continue;
      }
      ++loaded;
      scalify_rt_tensor tensor;
      bool small = true;
      for (int i = 0; i < scalify_rt_num_args(exe.get()); ++i) {
        scalify_rt_arg(exe.get(), i, &tensor);
        small &= tensor.bytes <= 4 * params.size();
      }
      for (int i = 0; i < scalify_rt_num_results(exe.get()); ++i) {
        scalify_rt_result(exe.get(), i, &tensor);
        small &= tensor.bytes <= 4 * params.size();
      }
      void *args[] = {params.data(), batch.data()};
      void *results[] = {nullptr, loss.data()};
      ran += small && scalify_rt_run(exe.get(), "step", args, 2, results, 2) ==
                          SCALIFY_RT_OK;
    }
  EXPECT_GT(loaded, 100); // names may change freely
  EXPECT_GT(ran, 100);
}

TEST(CudaManifest, Lies) {
  auto error = [](auto edit) {
    Json m = gpuManifest();
    edit(m);
    return errorOf(pack(m, gpuKernels(), gpuConstants()));
  };
  auto step = [](Json &m) -> Json & { return m["functions"]["step"]; };
  struct Case {
    std::string got, want;
  } cases[] = {
      {error([](Json &m) { m["device"] = "rocm"; }),
       "target 'sm_90a' on device 'rocm', this runtime has 'cpu' and 'cuda'"},
      {error([](Json &m) { m.erase("capability"); }), "capability is missing"},
      {error([&](Json &m) { step(m)[0].erase("threads"); }),
       "functions.step[0].threads is missing"},
      {error([&](Json &m) { step(m)[0]["threads"] = 0; }),
       "threads must be at least 1"},
      {error([&](Json &m) { step(m)[0]["threads"] = 1025; }),
       "more than a block's 1024"},
      {error([&](Json &m) { step(m)[0]["rows"] = -1; }),
       "rows must be at least 0"},
      {error([&](Json &m) { step(m)[0]["bufs"] = {1, 9}; }),
       "bufs[1] is 9, but there are 9 buffers"},
      {error([&](Json &m) { step(m)[0]["counters"] = {2}; }),
       "counters[0] is 2, but there are 2 counters"},
      {error([](Json &m) { m["buffers"][8]["offset"] = 128; }),
       "past the end of its 128 bytes of const memory"},
      {error([](Json &m) { m["arena_bytes"] = 8191; }),
       "past the end of its 8191 bytes of temp memory"},
  };
  for (const Case &test : cases)
    EXPECT_TRUE(contains(test.got, test.want)) << test.got;
}

TEST(CudaManifest, RowsBeyondAGridAreTheKernelsOwn) {
  Json m = gpuManifest();
  m["functions"]["step"][0]["rows"] = int64_t(1) << 40;
  m["functions"]["step"][3]["rows"] = 0;
  Recorded gpu(pack(m, gpuKernels(), gpuConstants()));
  gpu.run();
  std::string lines = linesOf(gpu.newLines(), "cuLaunchKernel");
  EXPECT_TRUE(contains(lines, "cast grid=2147483647 "));
  EXPECT_FALSE(contains(lines, "update"));
}

// Without a driver the error names it, and the way out.
TEST(CudaManifest, MachinesWithoutAGpu) {
  scalify_rt_executable *raw = nullptr;
  scalify_rt_options options = {};
  options.device = SCALIFY_RT_DEVICE_CUDA;
  options.device_index = 1000;
  std::string artefact = gpuArtefact();
  scalify_rt_status status =
      scalify_rt_load_memory(artefact.data(), artefact.size(), &options, &raw);
  ASSERT_EQ(raw, nullptr);
  std::string error = scalify_rt_last_error();
  if (contains(error, "libcuda") || contains(error, "libcublasLt")) {
    EXPECT_EQ(status, SCALIFY_RT_UNSUPPORTED);
    EXPECT_TRUE(contains(error, "install")) << error;
    EXPECT_TRUE(contains(error, "load it with device 'null'")) << error;
  } else {
    // With a driver, with or without a GPU: no GPU has this index.
    EXPECT_TRUE(contains(error, "cuInit") || contains(error, "no GPU 1000"))
        << error;
  }
}

TEST(CudaManifest, MemoryIsTheHostsOnACpu) {
  Handle exe = load(tinyArtefact(64));
  ASSERT_TRUE(exe);
  void *params = nullptr, *loss = nullptr;
  ASSERT_EQ(scalify_rt_memory_alloc(exe.get(), 256, &params), SCALIFY_RT_OK);
  ASSERT_EQ(scalify_rt_memory_alloc(exe.get(), 4, &loss), SCALIFY_RT_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(params) % 64, 0u);
  std::vector<float> host(64, 0.25f), batch(64, 0.5f);
  ASSERT_EQ(scalify_rt_memory_copy_in(exe.get(), params, host.data(), 256),
            SCALIFY_RT_OK);
  void *args[] = {params, batch.data()}, *results[] = {nullptr, loss};
  ASSERT_EQ(scalify_rt_run(exe.get(), "step", args, 2, results, 2),
            SCALIFY_RT_OK);
  ASSERT_EQ(scalify_rt_memory_copy_out(exe.get(), host.data(), params, 256),
            SCALIFY_RT_OK);
  EXPECT_EQ(host, std::vector<float>(64, 0.75f));
  EXPECT_EQ(scalify_rt_memory_free(exe.get(), params), SCALIFY_RT_OK);
  EXPECT_EQ(scalify_rt_memory_free(exe.get(), params), SCALIFY_RT_BAD_ARGUMENT);
  EXPECT_EQ(scalify_rt_memory_free(exe.get(), nullptr), SCALIFY_RT_OK);
  EXPECT_EQ(scalify_rt_memory_alloc(exe.get(), uint64_t(1) << 62, &params),
            SCALIFY_RT_INTERNAL);
  EXPECT_EQ(params, nullptr);
  EXPECT_EQ(scalify_rt_memory_copy_in(exe.get(), nullptr, host.data(), 4),
            SCALIFY_RT_BAD_ARGUMENT);
}
