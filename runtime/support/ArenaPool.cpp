#include "support/ArenaPool.h"

#include <algorithm>

using namespace scalify::rt;

ArenaPool &ArenaPool::get() {
  // Never destroyed: executables may outlive static objects.
  static auto *pool = new ArenaPool();
  return *pool;
}

void ArenaPool::join(size_t bytes) {
  if (bytes == 0)
    return;
  {
    std::lock_guard<std::mutex> lock(mutex);
    unused.reserve(needs.size() + 1);
    needs.insert(bytes);
    needed += bytes;
  }
  try {
    giveBack(take(bytes), bytes);
  } catch (...) {
    leave(bytes);
    throw;
  }
}

void ArenaPool::leave(size_t bytes) {
  if (bytes == 0)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  needs.erase(needs.find(bytes));
  needed -= bytes;
  std::sort(unused.begin(), unused.end(),
            [](const PageMemory &a, const PageMemory &b) {
              return a.size() < b.size();
            });
  while (!unused.empty() && (unused.back().size() > most() || held > needed ||
                             unused.size() > needs.size()))
    freeLast();
}

void ArenaPool::freeLast() {
  held -= unused.back().size();
  unused.pop_back();
}

PageMemory ArenaPool::take(size_t bytes) {
  if (bytes == 0)
    return PageMemory();
  std::lock_guard<std::mutex> lock(mutex);
  auto smallest = unused.end();
  for (auto it = unused.begin(); it != unused.end(); ++it)
    if (it->size() >= bytes &&
        (smallest == unused.end() || it->size() < smallest->size()))
      smallest = it;
  if (smallest != unused.end()) {
    PageMemory found = std::move(*smallest);
    unused.erase(smallest);
    return found;
  }
  // All are too small: this one takes the place of one of them. Pages that no
  // run touches cost nothing.
  if (!unused.empty())
    freeLast();
  PageMemory made(static_cast<int64_t>(bytes), "the arena");
  held += bytes;
  return made;
}

void ArenaPool::giveBack(PageMemory memory, size_t bytes) {
  if (!memory.data())
    return;
  std::lock_guard<std::mutex> lock(mutex);
  const bool isTooMuch = memory.size() > bytes && held > needed;
  // join() has reserved the room, so that this allocates nothing.
  if (memory.size() <= most() && !isTooMuch && unused.size() < needs.size())
    unused.push_back(std::move(memory));
  else
    held -= memory.size();
}

void ArenaPool::drop(PageMemory memory) {
  std::lock_guard<std::mutex> lock(mutex);
  held -= memory.size();
}
