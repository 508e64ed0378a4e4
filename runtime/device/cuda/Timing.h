// The times of a step's commands, by events between them.
#ifndef SCALIFY_RUNTIME_DEVICE_CUDA_TIMING_H
#define SCALIFY_RUNTIME_DEVICE_CUDA_TIMING_H

#include "device/Device.h"
#include "device/cuda/Session.h"

namespace scalify::rt::cuda {

class Timing {
public:
  /// Begins a step, which is timed if `isOn`.
  void begin(bool isOn);
  bool isOn() const { return on; }
  /// True if read() must come before another command: a loop may issue any
  /// number.
  bool isFull() const { return pending.size() == mostPending; }
  /// Records the start of the command of that index in the program.
  void start(const Session &session, StreamHandle stream, size_t command);
  /// Records the end of the last command.
  void end(const Session &session, StreamHandle stream);
  /// Adds the times of the commands that started. All must be done.
  void read(const Session &session);
  std::vector<Device::CommandTime> take() { return std::move(times); }

private:
  static constexpr size_t mostPending = 4096;

  void record(const Session &session, StreamHandle stream);

  bool on = false;
  std::vector<size_t> pending; // commands that started and are not read
  /// Before each of these, and after the last.
  std::vector<Owned<EventHandle>> events;
  std::vector<Device::CommandTime> times; // by command
};

} // namespace scalify::rt::cuda

#endif // SCALIFY_RUNTIME_DEVICE_CUDA_TIMING_H
