// Page-aligned zeroed memory from the system.
#ifndef SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H
#define SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H

#include <cstddef>
#include <cstdint>

namespace scalify::rt {

class PageMemory {
public:
  PageMemory() = default;
  /// Throws an Error that names `what` if the system is out of memory.
  PageMemory(int64_t size, const char *what);
  ~PageMemory();
  PageMemory(PageMemory &&other) noexcept;
  PageMemory &operator=(PageMemory &&other) noexcept;
  uint8_t *data() const { return bytes; }
  size_t size() const { return length; }

private:
  uint8_t *bytes = nullptr;
  size_t length = 0;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H
