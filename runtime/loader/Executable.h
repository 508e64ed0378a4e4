// A loaded artefact with all memory that a step needs, allocated once.
#ifndef SCALIFY_RUNTIME_LOADER_EXECUTABLE_H
#define SCALIFY_RUNTIME_LOADER_EXECUTABLE_H

#include "device/Device.h"
#include "loader/Image.h"
#include "loader/Program.h"
#include "loader/SideThread.h"
#include "scalify/runtime.h"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace scalify::rt {

class Executable {
public:
  struct Time {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
  };
  struct ProfileRow {
    const Function *function;
    const Command *command;
    Time time;
  };

  /// `makeDevice` chooses the device by the artefact's target. An artefact for
  /// several ranks needs a communicator of as many ranks, which outlives the
  /// executable.
  Executable(Image image, const DeviceMaker &makeDevice,
             Communicator *comm = nullptr);

  /// Allocates nothing. Throws an Error on failure. See scalify_rt_run.
  /// A trial leaves out the commands that are marked for it.
  void run(const std::string &function, void *const *args, int32_t numArgs,
           void *const *results, int32_t numResults, bool isTrial = false);

  void setPoll(scalify_rt_poll poll, void *context);
  void setHostCall(scalify_rt_host_call callback, void *context);
  void setThreads(int threads);
  void setProfiling(bool on);

  // Memory from which steps use arguments without a copy.
  void *allocate(size_t bytes);
  void release(void *memory);
  void copyIn(void *dst, const void *src, size_t bytes);
  void copyOut(void *dst, const void *src, size_t bytes);
  void synchronizeAll();
  void copyWithin(void *dst, const void *src, size_t bytes);

  const std::string &manifest() const { return image.manifest(); }
  const Program &program() const { return plan; }
  /// `counterWords` words for each of the program's counters.
  const std::vector<uint64_t> &health() const { return counts; }
  void setHealth(const uint64_t *words) {
    std::copy_n(words, counts.size(), counts.begin());
  }
  /// Returns how many elements a counter's cast had in the last run.
  uint64_t elementsOf(size_t counter) const {
    return plan.counters[counter].elements + dynamicElements[counter];
  }
  /// Returns the scale of a counter's cast in the last run; 0 if unknown.
  float scaleOf(size_t counter) const;
  /// Returns by how many binades that scale rose since the run before; 0 if
  /// unknown.
  float scaleMoved(size_t counter) const;
  const std::vector<ProfileRow> &profile() const { return rows; }
  const Device &device() const { return *dev; }

private:
  using Clock = std::chrono::steady_clock;

  void joinRanks();
  void connectRanks();
  void startSide();
  static void check(const Interface &interface, void *const *args,
                    int32_t numArgs, void *const *results, int32_t numResults);
  void begin(const Function &function, void *const *args, void *const *results);
  void bind(const Function &function, void *const *args, void *const *results,
            void *arena);
  std::vector<void *> &boundOf(const Function &function) {
    return bound[size_t(&function - plan.functions.data())];
  }
  void walk(const Function &function);
  void walkWithSide(const Function &function);
  void walkSide();
  void sit(const Command &wait);
  void execute(const Function &function, const Command &command);
  void count(const Command &kernel, const uint64_t *words);
  void runTiles(const Function &function, const Command &first,
                ProfileRow *row);
  void iterate(const Command &loop, void *const *at);
  void takeTimes();
  ProfileRow *rowsOf(const Function &function);
  void callHost(const Function &function, const Command &command,
                void *const *at);
  void requireHost(const Function &function) const;
  void pollIfDue(Clock::time_point now);
  std::unique_lock<std::mutex> lockForUse();

  Image image;
  Program plan;
  std::unique_ptr<Device> dev;
  Communicator *comm;
  uint32_t rank = 0, place = 0; // place: rank in its stage
  /// Number of runs with exchanges between ranks.
  uint64_t numSteps = 0;
  uint64_t agreedProgram = 0; // see requireOneStep
  bool hasMeasured = false;
  std::mutex inUse;
  StepCall call;                          // the running call
  std::vector<std::vector<void *>> bound; // by function: address of each buffer
  std::vector<std::vector<void *>> loopArgs; // by function: of a loop's callee
  std::vector<void *> kernelArgs;            // scratch of the running command
  std::vector<uint64_t> counts;              // of the last run
  std::vector<uint64_t> dynamicElements;     // of each counter, in the last run
  std::vector<float> scalesBefore;    // of each counter, in the run before
  std::vector<uint64_t> kernelCounts; // scratch of the running kernel
  std::vector<ProfileRow> rows;
  std::vector<size_t> firstRow; // by function
  bool profiling = false;
  bool leavesOutUpdates = false; // in the running call
  scalify_rt_poll poll = nullptr;
  void *pollContext = nullptr;
  scalify_rt_host_call hostCall = nullptr;
  void *hostContext = nullptr;
  Clock::time_point lastPoll;
  /// Runs the commands of a CPU's program on other streams than the first; null
  /// if there are none.
  std::unique_ptr<SideThread> side;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_EXECUTABLE_H
