#include "loader/SideThread.h"
#include "support/FloatControl.h"

#include <algorithm>

using namespace scalify::rt;

namespace {
struct Stopped {};
} // namespace

SideThread::SideThread(int32_t events, Body body, void *context)
    : body(body), context(context), recorded(size_t(events)),
      thread([this] { loop(); }) {}

SideThread::~SideThread() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  thread.join();
}

void SideThread::loop() {
  ScopedFloatControl control;
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isRunning || isEnding; });
    if (!isRunning)
      return;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      body(context);
    } catch (const Stopped &) {
      thrown = nullptr;
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    error = std::move(thrown);
    isRunning = false;
    changed.notify_all();
  }
}

void SideThread::start() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::fill(recorded.begin(), recorded.end(), 0);
    isStopped = false;
    error = nullptr;
    isRunning = true;
  }
  changed.notify_all();
}

void SideThread::record(int32_t event) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    recorded[size_t(event)] = 1;
  }
  changed.notify_all();
}

void SideThread::wait(int32_t event) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return recorded[size_t(event)] || isStopped; });
  if (isStopped)
    throw Stopped();
}

void SideThread::checkLocked() {
  if (error)
    std::rethrow_exception(error);
}

void SideThread::check() {
  std::lock_guard<std::mutex> lock(mutex);
  checkLocked();
}

bool SideThread::waitFor(int32_t event, std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, time,
                   [&] { return recorded[size_t(event)] || error; });
  checkLocked();
  return recorded[size_t(event)];
}

bool SideThread::waitForEnd(std::chrono::milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, time, [&] { return !isRunning; });
  checkLocked();
  return !isRunning;
}

void SideThread::stop() noexcept {
  std::unique_lock<std::mutex> lock(mutex);
  isStopped = true;
  changed.notify_all();
  changed.wait(lock, [&] { return !isRunning; });
}
