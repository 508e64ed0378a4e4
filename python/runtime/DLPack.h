// Arrays of other libraries by DLPack: where they lie, and their memory.
#ifndef SCALIFY_PYTHON_RUNTIME_DLPACK_H
#define SCALIFY_PYTHON_RUNTIME_DLPACK_H

#include "Numpy.h"

#include <optional>

namespace scalify::rt::py {

/// DLPack's numbers for where memory lies.
struct DLDevice {
  int kind = 1;
  int ordinal = 0;
  /// Memory that CUDA pinned is the host's all the same.
  bool isHost() const { return kind == 1 || kind == 3; }
  /// A GPU's, or managed, which both sides address.
  bool isCuda() const { return kind == 2 || kind == 13; }
};

/// Where an object says that it lies; nothing if it does not say.
std::optional<DLDevice> dlpackDevice(nb::handle object);

/// The object's memory, dense and row major, as it is; raises BufferError or
/// TypeError, with the way out, if it cannot be read so. A stream of a GPU has
/// waited for what writes it; 0 for memory of the host.
ArrayView dlpackView(nb::handle object, uintptr_t stream);

/// A DLPack capsule over `slot`; `kwargs` are those of __dlpack__.
nb::object dlpackCapsule(const SlotRef &slot, const TensorType &type,
                         const nb::kwargs &kwargs);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_DLPACK_H
