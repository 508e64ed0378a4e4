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
    needs.insert(bytes);
    unused.reserve(needs.size());
  }
  try {
    giveBack(take(bytes));
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
  unused.erase(std::remove_if(unused.begin(), unused.end(),
                              [&](const PageMemory &each) {
                                return each.size() > most();
                              }),
               unused.end());
  if (unused.size() > needs.size())
    unused.resize(needs.size());
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
    unused.pop_back();
  return PageMemory(static_cast<int64_t>(bytes), "the arena");
}

void ArenaPool::giveBack(PageMemory memory) {
  std::lock_guard<std::mutex> lock(mutex);
  // join() has reserved the room, so that this allocates nothing.
  if (memory.data() && memory.size() <= most() && unused.size() < needs.size())
    unused.push_back(std::move(memory));
}
