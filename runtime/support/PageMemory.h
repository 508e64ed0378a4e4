// Page-aligned zeroed memory from the system.
#ifndef SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H
#define SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H

#include <cstddef>
#include <cstdint>

namespace scalify::rt {

class PageMemory {
public:
  PageMemory() = default;
  /// Throws Error that names `what` where the system has not got as much.
  PageMemory(int64_t size, const char *what);
  ~PageMemory();
  PageMemory(PageMemory &&other) noexcept;
  PageMemory &operator=(PageMemory &&other) noexcept;
  uint8_t *data() const { return bytes; }

private:
  uint8_t *bytes = nullptr;
  size_t length = 0;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_PAGEMEMORY_H
