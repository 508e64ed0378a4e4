// The rank for which each rank waits, as the ranks of an exchange report it.
// Independent of the runtime, for shared objects.
#ifndef SCALIFY_RUNTIME_COMM_WAITCHAIN_H
#define SCALIFY_RUNTIME_COMM_WAITCHAIN_H

#include "comm/TransportFault.h"

#include <chrono>
#include <utility>
#include <vector>

namespace scalify::rt {

class WaitChain {
public:
  WaitChain(int32_t rank, int32_t size)
      : rank(rank), waitsFor(size_t(size), -1) {}

  /// Notes that rank `from` waits for `other`, or for none if that is -1.
  void hear(int32_t from, int32_t other) {
    waitsFor[size_t(from)] = other;
    isWaitedFor |= other == rank;
  }

  /// Throws a fault if the caller asks to stop, or if nothing came for too
  /// long. Before, `tell(pending)` announces that this rank waits for
  /// `pending`.
  template <typename Tell>
  void check(std::chrono::steady_clock::duration idle,
             const scalify_transport_wait &wait, int32_t pending, Tell tell) {
    if (wait.poll && wait.poll(wait.context))
      throw TransportFault{SCALIFY_TRANSPORT_INTERRUPTED, -1, "interrupted"};
    double seconds = std::chrono::duration<double>(idle).count();
    // A rank that others wait for announces at once which rank it waits for
    // itself, even after a short wait: then the chain is known before the first
    // rank times out.
    if ((seconds > wait.seconds / 2 || isWaitedFor) &&
        !std::exchange(hasTold, true))
      tell(pending);
    if (seconds < wait.seconds)
      return;
    throw lateFault(
        findBlockingRank(pending, int32_t(waitsFor.size()),
                         [&](int32_t peer) { return waitsFor[size_t(peer)]; }),
        seconds);
  }

  /// Ends an exchange: `tell(-1)` takes the announcement back.
  template <typename Tell> void finish(Tell tell) {
    isWaitedFor = false;
    if (std::exchange(hasTold, false))
      tell(-1);
  }

private:
  int32_t rank;
  std::vector<int32_t> waitsFor; // by rank; -1 for none
  bool hasTold = false;          // that this rank waits
  bool isWaitedFor = false;      // others have told that they wait for it
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_WAITCHAIN_H
