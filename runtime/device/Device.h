// The interface of devices. The executor walks a function's commands, resolves
// their buffers and calls a device, which knows nothing of manifests.
#ifndef SCALIFY_RUNTIME_DEVICE_DEVICE_H
#define SCALIFY_RUNTIME_DEVICE_DEVICE_H

#include "loader/Program.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace scalify::rt {

class Image;

/// One call of a function with the caller's arguments, checked. A result that
/// aliases an argument has that argument's address.
struct StepCall {
  const Function *function = nullptr;
  const Interface *interface = nullptr;
  std::vector<void *> args, results;
  bool isTimed = false;
  uint64_t step = 0; // of the executable, for errors
  /// The byte that fills memory the step has not written yet, for debugging.
  std::optional<uint8_t> filler;
  size_t arenaBytes = 0;
  scalify_rt_poll poll = nullptr;
  void *pollContext = nullptr;
};

/// The commands of a group of tiles in one execution.
struct TileRun {
  const Command *commands = nullptr;
  size_t count = 0;
  /// Of all commands, in their order: those of a thread's memory are offsets.
  void *const *buffers = nullptr;
  /// `counterWords` for each of the commands' counters, to which counts are
  /// added.
  uint64_t *counters = nullptr;
  /// Of each command, to which times of threads are added, or null.
  uint64_t *nanoseconds = nullptr;
};

class Device {
public:
  virtual ~Device() = default;

  /// Called once: reads kernels and constants from the artefact, allocates the
  /// arena, and prepares everything else so that a step allocates nothing.
  virtual void load(Program &program, const Image &image) = 0;
  /// Called once, after load(), with the connection to the other ranks. Null
  /// for a single rank, or if the device only records.
  virtual void connect(const Program &program, Communicator *comm,
                       uint32_t rank) {}
  /// The addresses of temporaries and constants, as kernels see them.
  virtual void *arena() const = 0;
  virtual const void *constants() const = 0;
  /// The address of the rank's number; the host's is at `host`.
  virtual const void *rankNumber(const uint32_t *host) const { return host; }

  /// Called before the commands of a step. May replace the caller's addresses.
  /// Returns false if the device replays the commands of an earlier step, so
  /// that they need not be walked.
  virtual bool begin(StepCall &call) {
    fillUnwritten(call);
    return true;
  }
  /// Called after the commands: the step is done when it returns. Adds the
  /// counts of casts.
  virtual void finish(StepCall &call, uint64_t *counts) {}
  /// Called after an error in begin(), finish() or a command.
  virtual void abandon() noexcept {}
  /// True if commands only start when they are called: then a step can be
  /// interrupted only after it finishes, and the device measures the time.
  virtual bool isAsynchronous() const { return false; }
  /// The number of a command's calls in a timed step, and their time.
  struct CommandTime {
    uint64_t calls = 0, nanoseconds = 0;
  };
  /// Returns the times of the last timed step, by the command's index in the
  /// program; nothing if no step was timed since the last call.
  virtual std::vector<CommandTime> takeTimes() { return {}; }

  /// Runs rows [0, command.rows). Adds the tasks' counts to `counters`,
  /// `counterWords` for each of command.counters, in that order, unless
  /// finish() does.
  virtual void kernel(const Command &command, void *const *buffers,
                      uint64_t *counters) = 0;
  /// `buffers` are the command's, with its element offsets applied.
  virtual void gemm(const Command &command, void *const *buffers) = 0;
  /// In a CPU's artefact only: runs the commands tile by tile. A device that
  /// only records runs them one by one.
  virtual void tiles(const TileRun &run);
  /// In a GPU's artefact only.
  virtual void attention(const Command &command, void *const *buffers);
  /// In a CPU's artefact only.
  virtual void lapack(const Command &command, void *const *buffers);
  /// `comm` is null on devices that only record, and with one rank.
  virtual void collective(const Command &command, Communicator *comm,
                          const void *src, void *dst);
  virtual void copy(const Command &command, const void *src, void *dst) = 0;
  virtual void fill(const Command &command, void *dst) = 0;
  /// True if a loop whose length is data runs iteration `trip`: its condition
  /// is at `flag`, once all commands before are done. Devices that compute no
  /// conditions run one iteration.
  virtual bool goesOn(const Command &loop, const void *flag, int64_t trip) {
    return isReal() ? *static_cast<const uint8_t *>(flag) != 0 : trip == 0;
  }
  /// Called before and after the commands of each iteration.
  virtual void beginIteration(const Function &body) {}
  virtual void endIteration(const Function &body) {}
  /// Does nothing if commands run in the order of the program.
  virtual void record(const Command &command) {}
  virtual void wait(const Command &command) {}

  /// Allocates memory from which steps use arguments without a copy. release()
  /// or the device's destructor frees it.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void copyIn(void *dst, const void *src, size_t bytes) = 0;
  virtual void copyOut(void *dst, const void *src, size_t bytes) = 0;
  /// Copies between addresses that steps can use.
  virtual void copyWithin(void *dst, const void *src, size_t bytes) = 0;
  /// Waits for all work of this process on the GPU, on any stream.
  virtual void synchronizeAll() {}
  /// Returns the CUDA stream of a step's work; null if the host runs it.
  virtual void *stepStream() const { return nullptr; }

  /// False if commands are only recorded.
  virtual bool isReal() const { return true; }
  virtual int threads() const { return 1; }
  virtual void setThreads(int threads) {}
  /// Returns the driver's name of the GPU.
  virtual std::string deviceName() const { return ""; }
  /// Returns the GPU's index among those that the driver shows; -1 for a CPU.
  virtual int32_t deviceIndex() const { return -1; }
  /// Returns the record of the null device.
  virtual std::string trace() const { return ""; }

protected:
  /// Fills the arena, and results that alias no argument, if `call` asks for
  /// it: then reads of unwritten memory give the same values in every run,
  /// unlike any that the step computes.
  void fillUnwritten(const StepCall &call);
  /// Fills part of the arena or a result.
  virtual void setBytes(void *dst, size_t bytes, uint8_t byte) = 0;
};

/// `threads` of 0 means one per available core.
std::unique_ptr<Device> makeCpuDevice(int threads);
std::unique_ptr<Device> makeNullDevice();

/// Returns the device that `options` name if it runs the program's target.
/// Throws an Error that names the right device otherwise.
std::unique_ptr<Device> makeDevice(const scalify_rt_options &options,
                                   const Program &program);

using DeviceMaker = std::function<std::unique_ptr<Device>(const Program &)>;

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_DEVICE_DEVICE_H
