// A thread that runs part of a step beside the thread that called for it.
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

/// Both threads record events and wait for those of the other one. An error of
/// either ends the waits of the other. Nothing is allocated by a step.
class SideThread {
public:
  using Body = void (*)(void *context);

  SideThread(int32_t events, Body body, void *context);
  ~SideThread();
  SideThread(const SideThread &) = delete;
  SideThread &operator=(const SideThread &) = delete;

  // The calling thread's.

  /// Forgets events and runs the body.
  void start();
  /// Waits up to a time; true when the event is recorded. Throws what the body
  /// threw.
  bool waitFor(int32_t event, std::chrono::milliseconds time);
  /// The same for the end of the body.
  bool waitForEnd(std::chrono::milliseconds time);
  /// Throws what the body threw, if it has.
  void check();
  /// Lets the body end at its next event, and waits for that.
  void stop() noexcept;

  // Either's.
  void record(int32_t event);

  /// The body's: returns when the event is recorded, and throws when there is
  /// nothing more to do.
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
