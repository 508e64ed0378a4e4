// A step as one custom call of an XLA program, through XLA's FFI.
//
// What jax.jit does with arrays (donation in place, deletion, copies for who
// still looks, placement, types of results) is so what jax.jit does.
#ifndef SCALIFY_PYTHON_RUNTIME_XLACALL_H
#define SCALIFY_PYTHON_RUNTIME_XLACALL_H

#include "Inputs.h"

#include <mutex>
#include <optional>

namespace scalify::rt::py {

/// What an artefact's function takes and gives.
struct Signature {
  std::vector<Parameter> arguments, results;
};

/// The step of one executable, for XLA's custom call that carries its number.
class XlaCall {
public:
  /// The call's k-th operand is argument `operands[k]` of the step, its k-th
  /// result the step's `results[k]`. Those that it lacks are the last ones.
  XlaCall(std::shared_ptr<Loaded> loaded, const Signature &signature,
          std::vector<int32_t> operands, std::vector<int32_t> results);
  ~XlaCall();
  XlaCall(const XlaCall &) = delete;
  XlaCall &operator=(const XlaCall &) = delete;

  int64_t id() const { return number; }
  /// Sets the arguments that the call lacks, for the next run.
  void prepare(const nb::sequence &arguments);
  /// The results that the call lacks, of the run since `prepare`; None if there
  /// was none. Raises what the run failed with.
  nb::object finish();
  /// Bytes that were copied since XLA gave a result other memory than the
  /// donated argument's; none as long as donation works.
  int64_t copied() const { return copiedBytes; }

  /// Runs the step in XLA's memory, on XLA's thread.
  bool run(void *const *operands, size_t numOperands, void *const *results,
           size_t numResults);
  const std::string &failure() const { return failureText; }

private:
  void place(void *const *operands, void *const *results);
  std::unique_lock<std::mutex> waitForRun();

  std::shared_ptr<Loaded> loaded;
  const Signature &signature;
  std::vector<int32_t> operandOrder, resultOrder;
  int64_t number;
  int64_t copiedBytes = 0;

  // Of one run, which XLA may have on a thread of its own: an interrupt can
  // have `finish` come before the run is over, or before it has begun.
  std::mutex inRun;
  std::optional<Inputs> added;
  std::vector<SlotRef> addedSlots;
  std::vector<void *> in, out;
  bool hasRun = false;
  scalify_rt_status status = SCALIFY_RT_OK;
  std::string failureText;
  nb::object raised; // an exception, of a signal's handler
};

void bindXlaCall(nb::module_ &module);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_XLACALL_H
