// Every call of the driver fails once: the error must name the call and the
// command, nothing may leak, and the executable must still work.
#include "GpuArtefact.h"
#include "support/Error.h"

#include <gtest/gtest.h>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
/// Uses all calls of the driver: captured and replayed steps, more sets of
/// addresses than graphs, memory, and a profile.
void useAll(Recorded &gpu) {
  for (int i = 0; i < 3; ++i)
    gpu.run();
  std::vector<void *> memory;
  for (int i = 0; i < 5; ++i) {
    memory.push_back(gpu.exe->allocate(12288));
    gpu.exe->copyIn(memory.back(), gpu.batch.data(), 12288);
    gpu.args[1] = memory.back();
    gpu.run();
  }
  gpu.exe->copyOut(gpu.batch.data(), memory.back(), 12288);
  gpu.exe->release(memory.front());
  gpu.exe->setProfiling(true);
  gpu.run();
}

/// Checks that errors of commands' calls name the command.
void expectToNameCommand(const std::string &error) {
  if (contains(error, "cuLaunchKernel"))
    EXPECT_TRUE(contains(error, " in kernel '")) << error;
  if (contains(error, "cublasLtMat"))
    EXPECT_TRUE(contains(error, " in gemm 'dot' at step/dot")) << error;
}
} // namespace

TEST(CudaFault, EveryCallMayFail) {
  uint64_t atLoad = 0, all = 0;
  {
    Recorded gpu;
    atLoad = gpu.driver->callCount();
    useAll(gpu);
    all = gpu.driver->callCount();
  }
  ASSERT_GT(all, atLoad + 50);
  for (uint64_t at = 0; at < all; ++at) {
    auto driver = std::make_shared<cuda::RecordingDriver>();
    driver->failAfter(at);
    std::string error;
    try {
      Recorded gpu(gpuArtefact(), driver);
      try {
        useAll(gpu);
      } catch (const Error &) {
        // The whole executable works again.
        gpu.exe->setProfiling(false);
        gpu.args[1] = gpu.batch.data();
        EXPECT_NO_THROW(useAll(gpu)) << at;
        throw;
      }
    } catch (const Error &caught) {
      error = caught.what();
    }
    EXPECT_TRUE(contains(error, " failed")) << at << ": " << error;
    expectToNameCommand(error);
    EXPECT_EQ(driver->alive(), 0u) << at << ": " << error;
  }
}

TEST(CudaFault, ErrorsSayWhichCallAndCommand) {
  auto driver = std::make_shared<cuda::RecordingDriver>();
  Recorded gpu(gpuArtefact(), driver);
  // Fails one call after another up to the second launch.
  std::string error;
  for (uint64_t skip = 0; !contains(error, "cuLaunchKernel"); ++skip) {
    driver->failAfter(skip);
    try {
      gpu.run();
    } catch (const Error &caught) {
      error = caught.what();
      EXPECT_EQ(caught.status, SCALIFY_RT_INTERNAL);
    }
    ASSERT_LT(skip, 50u);
  }
  EXPECT_EQ(error, "cuLaunchKernel failed in kernel 'cast' at step/cast: "
                   "CUDA_ERROR_RECORDED (an error of the recording)");
}

TEST(CudaFault, OutOfMemoryNamesWhatItWasFor) {
  Json m = gpuManifest();
  m["arena_bytes"] = int64_t(1) << 60;
  try {
    Recorded gpu(pack(m, gpuKernels(), gpuConstants()));
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(),
                 "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (an error of the "
                 "recording), for arena of 1152921504606846976 bytes");
  }
}
