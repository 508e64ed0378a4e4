// After the first step a step allocates nothing: the test counts every
// allocation of the C library in this process.
#include "CommRanks.h"
#include "TestArtefact.h"

#include "loader/Executable.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
namespace {
std::atomic<uint64_t> allocations{0};
}

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void *memalign(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size) {
  ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : 12;
}
}

using namespace scalify::rt::test;

TEST(Allocation, CounterCounts) {
  uint64_t before = allocations;
  auto *kept = new std::vector<int>(100);
  uint64_t after = allocations;
  delete kept;
  EXPECT_GE(after - before, 2u);
}

TEST(Allocation, StepsAllocateNothing) {
  const int64_t n = 1 << 18; // 512 x 512
  Json m = tinyManifest(n);
  m["buffers"].push_back(buffer("temp", 0, {512, 512}));
  m["functions"]["step"].push_back({{"op", "gemm"},
                                    {"a", 0},
                                    {"b", 1},
                                    {"c", 5},
                                    {"m", 512},
                                    {"n", 512},
                                    {"k", 512},
                                    {"a_strides", {512, 1}},
                                    {"b_strides", {1, 512}},
                                    {"c_strides", {512, 1}}});
  m["functions"]["step"].push_back(
      {{"op", "copy"}, {"src", 1}, {"dst", 3}, {"bytes", 4 * n}});
  m["functions"]["step"].push_back(
      {{"op", "fill"}, {"dst", 3}, {"bytes", 4 * n}, {"byte", 0}});
  for (int threads : {1, 3}) {
    Handle exe = load(pack(m, kernels(), ""), threads);
    ASSERT_TRUE(exe) << scalify_rt_last_error();
    std::vector<float> w(n), g(n);
    float loss;
    void *args[] = {w.data(), g.data()}, *results[] = {nullptr, &loss};
    auto run = [&] {
      return scalify_rt_run(exe.get(), "step", args, 2, results, 2);
    };
    // A worker of OpenBLAS allocates its packing buffer in its first call, and
    // the system decides which workers join a step: hence several steps.
    for (int i = 0; i < 20; ++i)
      ASSERT_EQ(run(), SCALIFY_RT_OK);
    scalify_rt_set_profiling(exe.get(), 1);
    uint64_t before = allocations;
    for (int i = 0; i < 20; ++i)
      run();
    EXPECT_EQ(allocations - before, 0u);
  }
}

namespace {
/// A single rank, whose collectives return its own data.
class AloneCommunicator : public scalify::rt::Communicator {
public:
  int32_t rank() const override { return 0; }
  int32_t size() const override { return 4; }
  void beginStep(uint64_t, uint64_t) override {}
  void run(const scalify::rt::Collective &collective, const void *source,
           void *destination) override {
    // At load all ranks compare their steps: the others have this rank's.
    if (collective.kind == scalify::rt::Collective::Kind::AllGather)
      return scalify::test::repeat(collective, source, destination);
    std::memcpy(destination, source, 4 * size_t(collective.elements));
  }
  uint64_t bytesSent() const override { return 0; }
};
} // namespace

TEST(Allocation, StepsBesideCollectivesAllocateNothing) {
  const int64_t n = 1 << 10;
  std::string artefact = pack(overlapManifest(n), kernels(), "");
  AloneCommunicator comm;
  scalify::rt::Executable executable(
      scalify::rt::Image::fromMemory(artefact.data(), artefact.size()),
      [](const scalify::rt::Program &) {
        return scalify::rt::makeCpuDevice(2);
      },
      &comm);
  executable.setProfiling(true);
  std::vector<float> x(n), beside(n), whole(n);
  void *args[] = {x.data()}, *results[] = {beside.data(), whole.data()};
  const std::string step = "step";
  executable.run(step, args, 1, results, 2);
  uint64_t before = allocations;
  for (int i = 0; i < 20; ++i)
    executable.run(step, args, 1, results, 2);
  EXPECT_EQ(allocations - before, 0u);
}
#endif
