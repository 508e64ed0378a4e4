// Each task runs once, for any pool and however short the jobs.
#include "support/ThreadPool.h"

#include <gtest/gtest.h>

using namespace scalify::rt;

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 4, 9}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      pool.forEach(count, [&](int64_t i) { ++runs[size_t(i)]; });
      for (const std::atomic<int> &times : runs)
        EXPECT_EQ(times, 1);
    }
  }
}

// Thousands of tiny jobs in a row, with pauses that let workers fall asleep:
// detects a worker that mixes two jobs or misses one.
TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(4);
  std::vector<int64_t> out(16);
  for (int64_t job = 0; job < 20000; ++job) {
    int64_t count = 1 + job % 16;
    pool.forEach(count, [&](int64_t i) { out[size_t(i)] = job * 100 + i; });
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(out[size_t(i)], job * 100 + i);
    if (job % 1000 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, CoresAreCounted) { EXPECT_GE(availableCores(), 1); }
