// Kernels loaded from memory.
#ifndef SCALIFY_RUNTIME_LOADER_SHAREDOBJECT_H
#define SCALIFY_RUNTIME_LOADER_SHAREDOBJECT_H

#include "loader/Program.h"

#include <cstddef>

namespace scalify::rt {

/// A shared object whose bytes came from an artefact. The dynamic linker reads
/// it from an anonymous memory file: nothing is written to a file system.
class SharedObject {
public:
  SharedObject() = default;
  SharedObject(const void *data, size_t size);
  ~SharedObject();
  SharedObject(SharedObject &&other) noexcept;
  SharedObject &operator=(SharedObject &&other) noexcept;

  /// Returns the kernel of that name. Throws an Error if there is none.
  KernelFn kernel(const std::string &symbol) const;

private:
  void load();

  void *handle = nullptr;
  /// Stays open while the object is loaded: the dynamic linker identifies
  /// objects by path, and a reused descriptor number would return this object
  /// again.
  int fd = -1;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_LOADER_SHAREDOBJECT_H
