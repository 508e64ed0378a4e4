// An artefact with memory for its arguments and results.
#ifndef SCALIFY_RUNTIME_TOOLS_STEPRUNNER_H
#define SCALIFY_RUNTIME_TOOLS_STEPRUNNER_H

#include "Options.h"
#include "Safetensors.h"
#include "scalify/runtime.h"

#include <cstdlib>
#include <memory>

namespace scalify::rt {

struct FreeExecutable {
  void operator()(scalify_rt_executable *exe) const { scalify_rt_free(exe); }
};
struct FreeMemory {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

class StepRunner {
public:
  /// Loads the artefact. Throws a std::runtime_error on failure.
  explicit StepRunner(const Options &options);

  /// Reads the arguments from the input file, which must have each with its
  /// type.
  void bind();

  /// Runs one step and returns its seconds. `step` selects the slice of inputs
  /// that have one per step.
  double run(int64_t step);

  /// Runs the artefact's function rescale on the scales of casts and the
  /// counters of the last step. Returns the number of scales that changed.
  int64_t rescale();

  /// Returns "result[1] 4.158883 ..." for the scalar results of the last step.
  std::string scalars() const;

  /// The checks of a test program (`check.*`), and a line for each that failed.
  struct Checks {
    int count = 0, failed = 0;
    std::string text;
  };
  Checks checks() const;

  void write(const std::string &path) const;
  scalify_rt_executable *handle() const { return executable.get(); }

private:
  struct Slot {
    std::string name;
    TensorType type;
    int32_t alias = -1;
    bool isOwn = false;           // the artefact's own state, not the user's
    Memory memory;                // null for donated results
    void *onDevice = nullptr;     // if set, `memory` is its copy on the host
    const char *slices = nullptr; // an argument with one slice per step
    int64_t numSlices = 0;
  };

  bool isCheck(size_t index) const;
  static Slot describe(const scalify_rt_tensor &tensor);
  void bindArgument(Slot &arg, size_t index);
  /// The chosen function works in the memory of the step's arguments and
  /// results, so their types must be the same.
  void requireInterface() const;
  /// Returns the argument of the step with that name and the tensor's type.
  Slot &requireArgument(const char *function, const scalify_rt_tensor &tensor,
                        const std::string &name);
  /// Returns the scales of casts, on which rescale may run.
  Slot &requireScales();
  void measure();
  /// Allocates a slot's memory on the GPU, so that state stays there.
  void place(Slot &slot);
  static void *passed(const Slot &slot) {
    return slot.onDevice ? slot.onDevice : slot.memory.get();
  }
  void upload(const Slot &slot) const;
  void download(const Slot &slot) const;
  /// Returns the result's current bytes on the host.
  const void *resultData(size_t index) const;

  Options options;
  std::unique_ptr<scalify_rt_executable, FreeExecutable> executable;
  std::unique_ptr<SafetensorsFile> file;
  std::vector<Slot> args, results;
};

/// Turns a failed status into an exception with the runtime's text.
void check(scalify_rt_status status);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_TOOLS_STEPRUNNER_H
