// A step as a custom call of an XLA program, through XLA's FFI.
//
// So jax.jit itself handles arrays: donation in place, deletion, copies for
// remaining readers, placement, types of results.
#ifndef SCALIFY_PYTHON_RUNTIME_XLACALL_H
#define SCALIFY_PYTHON_RUNTIME_XLACALL_H

#include "Inputs.h"

#include <mutex>
#include <optional>

namespace scalify::rt::py {

/// The arguments and results of an artefact's function.
struct Signature {
  std::vector<Parameter> arguments, results;
};

/// The step of an executable as XLA's custom call with this object's id.
class XlaCall {
public:
  /// The call's k-th operand is argument `operands[k]` of the step, its k-th
  /// result the step's `results[k]`. The call lacks the step's last arguments
  /// and results.
  /// `id` is 0 for a number of its own.
  XlaCall(std::shared_ptr<Loaded> loaded, const Signature &signature,
          std::vector<int32_t> operands, std::vector<int32_t> results,
          int64_t id = 0);
  ~XlaCall();
  XlaCall(const XlaCall &) = delete;
  XlaCall &operator=(const XlaCall &) = delete;

  int64_t id() const { return number; }
  /// Sets the arguments that the call lacks, for the next run.
  void prepare(const nb::sequence &arguments);
  /// Returns the results that the call lacks, from the run since `prepare`;
  /// None without a run. Raises the run's error.
  nb::object finish();
  /// Lets XLA run the step whenever it likes: each run calls `before` with its
  /// operands as arrays, if it takes any, which prepares it, and then `after`,
  /// which finishes it.
  void setHooks(nb::object before, nb::object after, bool takesOperands);
  /// Returns the bytes that were copied because XLA gave a result other memory
  /// than its donated argument's; 0 while donation works.
  int64_t copied() const { return copiedBytes; }

  /// Runs the step in XLA's memory, on XLA's thread.
  bool run(void *const *operands, size_t numOperands, void *const *results,
           size_t numResults);
  /// The same between the hooks, if there are any.
  bool runWithHooks(void *const *operands, size_t numOperands,
                    void *const *results, size_t numResults);
  const std::string &failure() const { return failureText; }
  bool isOnDevice() const { return loaded->isOnDevice(); }

private:
  nb::list operandArrays(void *const *operands) const;
  scalify_rt_status place(void *const *operands, void *const *results);
  std::unique_lock<std::mutex> waitForRun();

  std::shared_ptr<Loaded> loaded;
  const Signature &signature;
  std::vector<int32_t> operandOrder, resultOrder;
  int64_t number;
  int64_t copiedBytes = 0;

  // State of one run, which XLA may execute on its own thread: after an
  // interrupt `finish` may be called before the run ends, or before it starts.
  std::mutex inRun;
  std::optional<Inputs> added;
  std::vector<SlotRef> addedSlots;
  std::vector<void *> in, out;
  bool hasRun = false;
  scalify_rt_status status = SCALIFY_RT_OK;
  std::string failureText;
  nb::object raised; // exception of a signal handler

  std::mutex inHooks; // held from `before` to `after`
  nb::object before, after;
  bool takesOperands = false;
};

void bindXlaCall(nb::module_ &module);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_XLACALL_H
