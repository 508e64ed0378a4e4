// SCALIFY_FILL on a GPU, on a recording whose copies and fills move memory.
#include "GpuArtefact.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>

using namespace scalify::rt;
using namespace scalify::rt::test;

namespace {
constexpr const char *variable = "SCALIFY_FILL";

/// The step of gpuArtefact(), loaded while the variable has a value. The
/// recording runs no kernel, so nothing writes the loss.
Recorded loaded(const char *value) {
  std::optional<std::string> before;
  if (const char *outside = std::getenv(variable))
    before = outside;
  ::setenv(variable, value, 1);
  auto driver = std::make_shared<cuda::RecordingDriver>();
  driver->fabric = std::make_shared<cuda::Fabric>();
  Recorded gpu(gpuArtefact(), driver);
  before ? ::setenv(variable, before->c_str(), 1) : ::unsetenv(variable);
  gpu.newLines();
  return gpu;
}

std::string fillsOf(const std::string &lines, const char *byte) {
  std::string out, end = std::string(" byte=") + byte;
  for (const char *what : {"arena+0 bytes=8192", "result1+0 bytes=4"})
    out += "cuMemsetD8Async " + std::string(what) + end + "\n";
  return lines.find(out) == std::string::npos ? "" : out;
}
} // namespace

// In each of the three modes of a step, and outside of graphs.
TEST(CudaFill, SetsArenaAndResultsBeforeEachStep) {
  Recorded gpu = loaded("pattern");
  for (const char *way : {"direct", "captured", "replayed"}) {
    gpu.loss = 0;
    gpu.run();
    std::string lines = gpu.newLines(), fills = fillsOf(lines, "165");
    EXPECT_NE(fills, "") << way << "\n" << lines;
    for (const char *later :
         {"cuStreamBeginCapture", "cuMemsetD8Async counters", "cuLaunchKernel",
          "cuGraphLaunch"})
      if (size_t at = lines.find(later); at != std::string::npos)
        EXPECT_LT(lines.find(fills), at) << way << ", " << later;
    unsigned char bytes[sizeof gpu.loss];
    std::memcpy(bytes, &gpu.loss, sizeof bytes);
    for (unsigned char byte : bytes)
      EXPECT_EQ(byte, 0xa5) << way;
    EXPECT_EQ(gpu.params[0], 2.0f) << "a donated argument keeps its numbers";
  }
}

TEST(CudaFill, NothingIsSetWithoutTheVariable) {
  Recorded gpu = loaded("");
  for (int step = 0; step < 3; ++step) {
    gpu.run();
    EXPECT_EQ(linesOf(gpu.newLines(), "cuMemsetD8Async arena"), "");
  }
}
