// A small pool that runs `count` tasks and returns when they are all done.
//
// A step is hundreds of short commands in a row, so workers spin briefly before
// they sleep: waking a sleeping thread costs more than many kernels. A task's
// work depends on its index only, never on the thread that runs it.
#ifndef SCALIFY_RUNTIME_SUPPORT_THREADPOOL_H
#define SCALIFY_RUNTIME_SUPPORT_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace scalify::rt {

/// Returns the number of cores this process may run on (the affinity mask, not
/// the machine).
int availableCores();

class ThreadPool {
public:
  /// `threads` counts the caller of run(); at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  using Task = void (*)(void *context, int64_t index);

  /// Calls `task(context, i)` once for each i in [0, count), on the caller's
  /// thread too. Not reentrant; tasks must not throw.
  void run(int64_t count, Task task, void *context);

  /// run() for a callable; allocates nothing.
  template <typename Fn> void forEach(int64_t count, Fn &&fn) {
    run(count, [](void *c, int64_t i) { (*static_cast<Fn *>(c))(i); }, &fn);
  }

private:
  void workerLoop();
  void takeTasks();
  bool hasNewJob(uint64_t seen) const;
  /// Spins, then sleeps, until there is a job not yet seen; false on shutdown.
  bool waitForJob(uint64_t seen);

  // The job. run() writes it only while `epoch` is even and `inside` is zero.
  Task task = nullptr;
  void *context = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};

  /// Odd while a job is open to workers. A worker first increments `inside` and
  /// then reads `epoch`. run() first closes the epoch and then waits until
  /// `inside` is zero. So no worker mixes two jobs.
  std::atomic<uint64_t> epoch{0};
  std::atomic<int> inside{0};

  std::atomic<int> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_THREADPOOL_H
