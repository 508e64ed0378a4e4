// The device for NVIDIA GPUs, on a recording of what it asks the driver for:
// no test here needs or uses a GPU.
#include "GpuArtefact.h"
#include "support/Error.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

template <typename Fn> std::string errorOf(Fn body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

constexpr const char *zeroed = "cuMemsetD8Async counters+0 bytes=64 byte=0\n";
constexpr const char *commands =
    "cuLaunchKernel cast grid=12 block=256 shared=0 "
    "args=[arg1+0,arena+0,counters+0]\n"
    "cuLaunchKernel cast grid=12 block=256 shared=0 "
    "args=[arg0+0,arena+3072,counters+32]\n"
    "cublasLtMatmul a=arena+3072 b=arena+0 d=arena+5120 a_scale=const+64 "
    "b_scale=const+0 alpha=0.500000 beta=0.000000 | TN m=32 n=48 k=64 "
    "a=f8E5M2 ld=64 b=f8E4M3FN ld=64 d=bf16 ld=32 batch=1 compute=f32 fast\n"
    "cuLaunchKernel update grid=7 block=128 shared=0 "
    "args=[arena+5120,arg0+0,result1+0,null]\n";
} // namespace

TEST(Cuda, LoadUploadsConstantsAndFindsKernels) {
  Recorded gpu;
  std::string lines = gpu.newLines();
  EXPECT_TRUE(contains(lines, "cuMemAlloc bytes=8192\n"));
  EXPECT_EQ(linesOf(lines, "cuMemcpyHtoDAsync const"),
            "cuMemcpyHtoDAsync const+0 bytes=128\n");
  EXPECT_EQ(linesOf(lines, "cuModuleLoadDataEx"),
            "cuModuleLoadDataEx ptx bytes=" +
                std::to_string(gpuKernels().size()) + "\n");
  EXPECT_TRUE(contains(
      lines, "cublasLtMatmulAlgoGetHeuristic TN m=32 n=48 k=64 a=f8E5M2"));
  EXPECT_EQ(std::memcmp(gpu.driver->find("const"), gpuConstants().data(), 128),
            0);
}

TEST(Cuda, FirstStepIsCapturedAndLaterOnesReplayed) {
  Recorded gpu;
  gpu.newLines();
  gpu.run();
  const std::string in = "cuMemAlloc bytes=8192\n"
                         "cuMemcpyHtoDAsync arg0+0 bytes=8192\n"
                         "cuMemAlloc bytes=12288\n"
                         "cuMemcpyHtoDAsync arg1+0 bytes=12288\n";
  const std::string out = "cuGraphLaunch exec0 nodes=5\n"
                          "cuMemcpyDtoHAsync counters+0 bytes=64\n"
                          "cuMemcpyDtoHAsync arg0+0 bytes=8192\n"
                          "cuMemcpyDtoHAsync result1+0 bytes=4\n"
                          "cuStreamSynchronize\n";
  EXPECT_EQ(gpu.newLines(),
            in + "cuMemAlloc bytes=4\ncuStreamBeginCapture\n" + zeroed +
                commands +
                "cuStreamEndCapture nodes=5\ncuGraphInstantiate exec0\n" + out);
  gpu.run();
  EXPECT_EQ(gpu.newLines(), "cuMemcpyHtoDAsync arg0+0 bytes=8192\n"
                            "cuMemcpyHtoDAsync arg1+0 bytes=12288\n" +
                                out);
}

TEST(Cuda, NullDeviceRecordsArtefactsForAGpu) {
  Handle exe = load(gpuArtefact(), 0, SCALIFY_RT_DEVICE_NULL);
  ASSERT_TRUE(exe) << scalify_rt_last_error();
  std::vector<float> params(32 * 64, 2.0f), batch(48 * 64);
  float loss = 1;
  void *args[] = {params.data(), batch.data()}, *results[] = {nullptr, &loss};
  ASSERT_EQ(scalify_rt_run(exe.get(), "step", args, 2, results, 2),
            SCALIFY_RT_OK)
      << scalify_rt_last_error();
  EXPECT_TRUE(
      contains(scalify_rt_trace(exe.get()), std::string(zeroed) + commands));
  // Nothing was computed: the state came back as it went.
  EXPECT_EQ(params, std::vector<float>(32 * 64, 2.0f));
}

TEST(Cuda, ArtefactsGoToTheirOwnDevice) {
  EXPECT_FALSE(load(gpuArtefact()));
  EXPECT_STREQ(scalify_rt_last_error(),
               "artefact is for target 'sm_90a': load it with device 'cuda', "
               "or with device 'null' to see what a step would do");
  EXPECT_FALSE(load(tinyArtefact(16), 0, SCALIFY_RT_DEVICE_CUDA));
  EXPECT_STREQ(scalify_rt_last_error(),
               "artefact is for target 'cpu': load it with device 'cpu', or "
               "compile it for target 'sm_90a'");
}
