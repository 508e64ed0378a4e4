#include "support/ThreadPool.h"
#include "support/FloatControl.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sched.h>

using namespace scalify::rt;

namespace {
// About 20 microseconds of pauses: longer than the gap between two commands,
// shorter than a scheduler tick.
constexpr int spinRounds = 600;

void pauseCpu() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}
} // namespace

int scalify::rt::availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i)
    workers.emplace_back([this] { workerLoop(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::takeTasks() {
  int64_t finished = 0;
  for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;
       ++finished)
    task(context, i);
  if (finished)
    done.fetch_add(finished, std::memory_order_acq_rel);
}

void ThreadPool::run(int64_t jobCount, Task jobTask, void *jobContext) {
  if (workers.empty() || jobCount <= 1) {
    for (int64_t i = 0; i < jobCount; ++i)
      jobTask(jobContext, i);
    return;
  }
  task = jobTask;
  context = jobContext;
  count = jobCount;
  next.store(0, std::memory_order_relaxed);
  done.store(0, std::memory_order_relaxed);
  epoch.fetch_add(1);
  if (sleepers.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex);
    wake.notify_all();
  }
  takeTasks();
  for (int spin = 0; done.load(std::memory_order_acquire) < jobCount; ++spin)
    spin < spinRounds ? pauseCpu() : (void)sched_yield();
  epoch.fetch_add(1);
  for (int spin = 0; inside.load() > 0; ++spin)
    spin < spinRounds ? pauseCpu() : (void)sched_yield();
}

bool ThreadPool::hasNewJob(uint64_t seen) const {
  uint64_t now = epoch.load();
  return (now & 1) && now != seen;
}

bool ThreadPool::waitForJob(uint64_t seen) {
  for (int spin = 0; spin < spinRounds; ++spin) {
    if (hasNewJob(seen))
      return true;
    pauseCpu();
  }
  std::unique_lock<std::mutex> lock(mutex);
  sleepers.fetch_add(1);
  wake.wait(lock, [&] { return stopping || hasNewJob(seen); });
  sleepers.fetch_sub(1);
  return !stopping;
}

void ThreadPool::workerLoop() {
  // A new thread inherits the state of the one that creates it.
  ScopedFloatControl control;
  uint64_t seen = 0;
  while (waitForJob(seen)) {
    inside.fetch_add(1);
    uint64_t now = epoch.load();
    if (now & 1) {
      seen = now;
      takeTasks();
    }
    inside.fetch_sub(1);
  }
}
