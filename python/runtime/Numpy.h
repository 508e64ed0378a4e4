// Conversions between Python arrays and the runtime's memory.
#ifndef SCALIFY_PYTHON_RUNTIME_NUMPY_H
#define SCALIFY_PYTHON_RUNTIME_NUMPY_H

#include "Memory.h"
#include "support/Types.h"

namespace scalify::rt::py {

/// Returns NumPy's dtype object for a type; ml_dtypes' for BF16 and FP8.
nb::object numpyDType(DType type);

/// Returns the type of a NumPy dtype object; raises TypeError if there is none.
DType fromNumpyDType(nb::handle dtype);

/// Returns a NumPy array over `slot`, or over a copy of GPU memory, and keeps
/// it alive. It is read-only, and cannot be made writable.
nb::object numpyView(const SlotRef &slot, const TensorType &type);

/// Returns a writable NumPy array over `slot` of the host, and keeps it alive.
nb::object numpyArray(const SlotRef &slot, const TensorType &type);

/// Dense memory of some Python array, and the object that keeps it alive.
struct ArrayView {
  const void *data = nullptr;
  TensorType type;
  nb::object owner;
};

/// Returns any array-like as dense memory: NumPy, JAX on the CPU and DLPack
/// arrays without a copy if they are dense and aligned; Python numbers and
/// lists as `want`. Raises TypeError, ValueError or BufferError if this is
/// impossible.
ArrayView hostView(nb::handle object, const TensorType &want);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_NUMPY_H
