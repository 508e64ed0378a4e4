// Arrays of other libraries by DLPack: their device and their memory.
#ifndef SCALIFY_PYTHON_RUNTIME_DLPACK_H
#define SCALIFY_PYTHON_RUNTIME_DLPACK_H

#include "Numpy.h"

#include <optional>

namespace scalify::rt::py {

/// DLPack's device type and index.
struct DLDevice {
  int kind = 1;
  int ordinal = 0;
  /// True for the host's memory, including memory that CUDA pinned.
  bool isHost() const { return kind == 1 || kind == 3; }
  /// True for a GPU's memory, or managed memory, which both sides address.
  bool isCuda() const { return kind == 2 || kind == 13; }
};

/// Returns the object's device, or nullopt if the object does not have one.
std::optional<DLDevice> dlpackDevice(nb::handle object);

/// Returns the object's dense, row-major memory without a copy. Raises
/// BufferError or TypeError, with the way out, if it cannot be read so.
/// `stream` is a GPU's stream that waits for pending writes; 0 for the host's
/// memory.
ArrayView dlpackView(nb::handle object, uintptr_t stream);

/// Returns a DLPack capsule over `slot`; `kwargs` are those of __dlpack__.
nb::object dlpackCapsule(const SlotRef &slot, const TensorType &type,
                         const nb::kwargs &kwargs);

} // namespace scalify::rt::py

#endif // SCALIFY_PYTHON_RUNTIME_DLPACK_H
