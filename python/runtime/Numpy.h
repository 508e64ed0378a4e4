// The runtime's view of Python arrays, and NumPy's view of ours.
#ifndef SCALIFY_PYTHON_RUNTIME_NUMPY_H
#define SCALIFY_PYTHON_RUNTIME_NUMPY_H

#include "Memory.h"
#include "support/Types.h"

namespace scalify::rt::py {

/// NumPy's dtype object for a type; ml_dtypes' for BF16 and FP8.
nb::object numpyDType(DType type);

/// The type of a NumPy dtype object; raises TypeError if there is none.
DType fromNumpyDType(nb::handle dtype);

/// A NumPy array over `slot`, which it keeps alive; of a GPU's memory over a
/// copy. It is read-only, and cannot be made writable.
nb::object numpyView(const SlotRef &slot, const TensorType &type);

/// A writable NumPy array over `slot` of the host, which it keeps alive.
nb::object numpyArray(const SlotRef &slot, const TensorType &type);

/// Dense memory of some Python array, and the object that keeps it alive.
struct ArrayView {
  const void *data = nullptr;
  TensorType type;
  nb::object owner;
};

/// Any array-like as dense memory: NumPy, JAX on the CPU, DLPack without a
/// copy where it is dense and aligned; Python numbers and lists as `want`.
/// Raises TypeError, ValueError or BufferError if it cannot be.
ArrayView hostView(nb::handle object, const TensorType &want);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_NUMPY_H
