// scalify.Array: a dense tensor that can be donated to a step.
#ifndef SCALIFY_PYTHON_RUNTIME_ARRAY_H
#define SCALIFY_PYTHON_RUNTIME_ARRAY_H

#include "Numpy.h"

namespace scalify::rt::py {

/// Owns its slot until a step consumes it.
class Array {
public:
  Array(SlotRef slot, TensorType type)
      : slot(std::move(slot)), tensorType(std::move(type)) {}

  /// Returns the slot; raises ValueError if a step has consumed the array.
  const SlotRef &live() const;
  bool consumed() const { return !slot; }
  void consume() { slot.reset(); }
  /// True if another library has received the memory, and so may have written
  /// it.
  bool lent() const { return isLent; }
  void lend() { isLent = true; }
  /// True if a view of the memory is alive elsewhere in Python.
  bool shared() const { return slot.use_count() > 1; }
  const TensorType &type() const { return tensorType; }

private:
  SlotRef slot;
  TensorType tensorType;
  bool isLent = false;
};

/// Returns a copy of any array-like in the host's memory.
Array copyOf(nb::handle object, const nb::object &dtype);

void bindArray(nb::module_ &module);
void bindExecutable(nb::module_ &module);
void bindFormats(nb::module_ &module);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_ARRAY_H
