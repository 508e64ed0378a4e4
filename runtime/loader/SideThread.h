// A thread that runs part of a step concurrently with its caller.
#ifndef SCALIFY_RUNTIME_LOADER_SIDETHREAD_H
#define SCALIFY_RUNTIME_LOADER_SIDETHREAD_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace scalify::rt {

/// Both threads record events and wait for each other's. An error of either
/// ends the other's waits. A step allocates nothing.
class SideThread {
public:
  using Body = void (*)(void *context);

  SideThread(int32_t events, Body body, void *context);
  ~SideThread();
  SideThread(const SideThread &) = delete;
  SideThread &operator=(const SideThread &) = delete;

  // For the calling thread.

  /// Clears the events and runs the body.
  void start();
  /// Waits up to `time`; returns true once the event is recorded. Rethrows the
  /// body's exception.
  bool waitFor(int32_t event, std::chrono::milliseconds time);
  /// Same for the end of the body.
  bool waitForEnd(std::chrono::milliseconds time);
  /// Rethrows the body's exception, if any.
  void check();
  /// Ends the body at its next event, and waits for it.
  void stop() noexcept;

  // For either thread.
  void record(int32_t event);

  /// For the body: returns when the event is recorded; throws if the body must
  /// end.
  void wait(int32_t event);

private:
  void loop();
  void checkLocked();

  Body body;
  void *context;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<char> recorded; // by event
  bool isRunning = false, isStopped = false, isEnding = false;
  std::exception_ptr error;
  std::thread thread;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_SIDETHREAD_H
