// The runtime's view of Python arrays, and NumPy's view of ours.
#ifndef SCALIFY_PYTHON_RUNTIME_NUMPY_H
#define SCALIFY_PYTHON_RUNTIME_NUMPY_H

#include "support/Types.h"

#include <memory>
#include <nanobind/nanobind.h>

namespace scalify::rt::py {

namespace nb = nanobind;

/// Memory that an array owns: 64-byte aligned, freed with its last owner.
class Slot {
public:
  explicit Slot(int64_t bytes);
  ~Slot();
  Slot(const Slot &) = delete;
  Slot &operator=(const Slot &) = delete;
  void *data() const { return bytes; }

private:
  void *bytes;
};
using SlotRef = std::shared_ptr<Slot>;

/// NumPy's dtype object for a type; ml_dtypes' for BF16 and FP8.
nb::object numpyDType(DType type);

/// The type of a NumPy dtype object; raises TypeError if there is none.
DType fromNumpyDType(nb::handle dtype);

/// A read-only NumPy array over `slot`, which it keeps alive.
nb::object numpyView(const SlotRef &slot, const TensorType &type);

/// A writable NumPy array over `slot`, which it keeps alive.
nb::object numpyArray(const SlotRef &slot, const TensorType &type);

/// A DLPack capsule over `slot`; `kwargs` are those of __dlpack__.
nb::object dlpack(const SlotRef &slot, const TensorType &type,
                  const nb::kwargs &kwargs);

/// Dense memory of some Python array, and the object that keeps it alive.
struct HostView {
  const void *data = nullptr;
  TensorType type;
  nb::object owner;
};

/// Any array-like as dense memory: NumPy, JAX on the CPU, DLPack without a
/// copy where it is dense and aligned; Python numbers and lists as `want`.
HostView hostView(nb::handle object, const TensorType &want);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_NUMPY_H
