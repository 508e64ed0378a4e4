#include "support/PageMemory.h"
#include "support/Error.h"

#include <sys/mman.h>
#include <utility>

using namespace scalify::rt;

PageMemory::PageMemory(int64_t size, const char *what)
    : length(static_cast<size_t>(size)) {
  if (length == 0)
    return;
  void *map = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    throw Error(SCALIFY_RT_INTERNAL, std::string("cannot allocate ") + what +
                                         " of " + std::to_string(size) +
                                         " bytes");
  // Temporaries are streamed: huge pages save TLB misses. If the kernel ignores
  // the advice, nothing breaks.
  (void)madvise(map, length, MADV_HUGEPAGE);
  bytes = static_cast<uint8_t *>(map);
}

PageMemory::~PageMemory() {
  if (bytes)
    munmap(bytes, length);
}

PageMemory::PageMemory(PageMemory &&other) noexcept
    : bytes(std::exchange(other.bytes, nullptr)),
      length(std::exchange(other.length, 0)) {}

PageMemory &PageMemory::operator=(PageMemory &&other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  return *this;
}
