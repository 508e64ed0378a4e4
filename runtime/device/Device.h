// What a device can do. The executor walks a function's commands, resolves
// their buffers and calls these; a device knows nothing of manifests.
#ifndef SCALIFY_RUNTIME_DEVICE_DEVICE_H
#define SCALIFY_RUNTIME_DEVICE_DEVICE_H

#include "loader/Program.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace scalify::rt {

class Image;

/// One call of a function: what the caller passed, checked. A result in its
/// argument's memory has that argument's address.
struct StepCall {
  const Function *function = nullptr;
  const Interface *interface = nullptr;
  std::vector<void *> args, results;
  bool isTimed = false;
  uint64_t step = 0; // of the executable, for errors
  /// What memory that the step has not written yet is set to, for a debugger.
  std::optional<uint8_t> filler;
  size_t arenaBytes = 0;
  scalify_rt_poll poll = nullptr;
  void *pollContext = nullptr;
};

class Device {
public:
  virtual ~Device() = default;

  /// Called once: takes kernels and constants out of the artefact, gets the
  /// arena, and makes ready whatever else lets a step run without allocating.
  virtual void load(Program &program, const Image &image) = 0;
  /// Called once, after that: how the other ranks are reached. Null where there
  /// is one, or where the device only records.
  virtual void connect(const Program &program, Communicator *comm,
                       uint32_t rank) {}
  /// Where temporaries and constants lie, as kernels address them.
  virtual void *arena() const = 0;
  virtual const void *constants() const = 0;
  /// The number of the rank, which the host has there.
  virtual const void *rankNumber(const uint32_t *host) const { return host; }

  /// Before the commands of a step. May put addresses of its own in the place
  /// of the caller's. False if it knows the commands from an earlier step, and
  /// nobody need walk them.
  virtual bool begin(StepCall &call) {
    fillUnwritten(call);
    return true;
  }
  /// After them: the step is done when it returns. Adds what casts counted.
  virtual void finish(StepCall &call, uint64_t *counts) {}
  /// After an error in or between the two.
  virtual void abandon() noexcept {}
  /// True if commands only begin when they are called: then a step may be
  /// interrupted when it is finished, and the device takes the time.
  virtual bool isAsynchronous() const { return false; }
  /// Of a command of the last timed step.
  virtual uint64_t nanoseconds(size_t command) { return 0; }

  /// Runs rows [0, command.rows). Adds the tasks' counts to `counters`,
  /// `counterWords` for each of command.counters, in that order, unless
  /// finish() does.
  virtual void kernel(const Command &command, void *const *buffers,
                      uint64_t *counters) = 0;
  /// `buffers` are those of the command, with its element offsets applied.
  virtual void gemm(const Command &command, void *const *buffers) = 0;
  /// Only commands of a GPU's artefact.
  virtual void attention(const Command &command, void *const *buffers);
  /// `comm` is null on devices that only record, and where there is one rank.
  virtual void collective(const Command &command, Communicator *comm,
                          const void *src, void *dst);
  virtual void copy(const Command &command, const void *src, void *dst) = 0;
  virtual void fill(const Command &command, void *dst) = 0;
  /// Nothing to do where commands run in the order of the program.
  virtual void record(const Command &command) {}
  virtual void wait(const Command &command) {}

  /// Memory that arguments may lie in without being moved. Given back by
  /// release(), or with the device.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void copyIn(void *dst, const void *src, size_t bytes) = 0;
  virtual void copyOut(void *dst, const void *src, size_t bytes) = 0;
  /// Between places that steps can address.
  virtual void copyWithin(void *dst, const void *src, size_t bytes) = 0;
  /// Waits for all that this process gave the GPU, on any stream.
  virtual void synchronizeAll() {}
  /// The CUDA stream that a step's work goes to; null where the host runs it.
  virtual void *stepStream() const { return nullptr; }

  /// False if commands are only recorded.
  virtual bool isReal() const { return true; }
  virtual int threads() const { return 1; }
  virtual void setThreads(int threads) {}
  /// What a GPU's driver calls it.
  virtual std::string deviceName() const { return ""; }
  /// Of those that the driver shows; -1 where it is no GPU.
  virtual int32_t deviceIndex() const { return -1; }
  /// The record of the null device.
  virtual std::string trace() const { return ""; }

protected:
  /// Sets the arena, and results that have no argument's memory, as `call`
  /// asks: what a step reads before it writes it is the same in every run then,
  /// and looks like nothing that it computes.
  void fillUnwritten(const StepCall &call);
  /// Of the arena or of a result.
  virtual void setBytes(void *dst, size_t bytes, uint8_t byte) = 0;
};

/// `threads` of 0 means one per available core.
std::unique_ptr<Device> makeCpuDevice(int threads);
std::unique_ptr<Device> makeNullDevice();

/// The device that `options` name, if it runs programs of that target; throws
/// Error that says which one would.
std::unique_ptr<Device> makeDevice(const scalify_rt_options &options,
                                   const Program &program);

using DeviceMaker = std::function<std::unique_ptr<Device>(const Program &)>;

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_DEVICE_H
