// Memory for the temporaries of steps, which hold nothing between two runs. The
// executables of a process share it: of a training step, its evaluation and its
// other shapes one runs at a time. Those that run at once, as ranks on threads,
// have memory of their own.
#ifndef SCALIFY_RUNTIME_SUPPORT_ARENAPOOL_H
#define SCALIFY_RUNTIME_SUPPORT_ARENAPOOL_H

#include "support/PageMemory.h"

#include <mutex>
#include <set>
#include <vector>

namespace scalify::rt {

class ArenaPool {
public:
  /// The pool of the process.
  static ArenaPool &get();

  /// Called once by an executable whose runs need `bytes`: its first run
  /// allocates nothing, unless others run at that time. Throws an Error if the
  /// system is out of memory.
  void join(size_t bytes);
  /// The reverse. Frees memory that no other executable needs.
  void leave(size_t bytes);

  /// Returns memory of at least `bytes`, of any content, for one run.
  PageMemory take(size_t bytes);
  /// The reverse, after a run that needed `bytes`. Frees the memory if it is
  /// larger than any need, or if it is that of a larger run which has taken
  /// other memory since: all memory is at most the sum of needs.
  void giveBack(PageMemory memory, size_t bytes);
  /// Frees memory that no other run may use.
  void drop(PageMemory memory);

private:
  size_t most() const { return needs.empty() ? 0 : *needs.rbegin(); }
  void freeLast();

  std::mutex mutex;
  std::multiset<size_t> needs;
  size_t needed = 0; // the sum of needs
  size_t held = 0;   // the bytes of all memory, also of runs
  std::vector<PageMemory> unused;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_ARENAPOOL_H
