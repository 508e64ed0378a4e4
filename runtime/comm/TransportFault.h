// Faults of transports, and the search for the rank that blocks others.
// Independent of the runtime, for shared objects.
#ifndef SCALIFY_RUNTIME_COMM_TRANSPORTFAULT_H
#define SCALIFY_RUNTIME_COMM_TRANSPORTFAULT_H

#include "scalify/transport.h"

#include <cstdio>
#include <string>

namespace scalify::rt {

/// Ends an exchange; never leaves a transport as an exception.
struct TransportFault {
  scalify_transport_status status;
  int32_t peer; // or -1
  std::string text;
};

inline scalify_transport_status report(const TransportFault &found,
                                       scalify_transport_fault &fault) {
  fault.peer = found.peer;
  std::snprintf(fault.text, sizeof(fault.text), "%s", found.text.c_str());
  return found.status;
}

inline std::string rankText(int32_t rank) {
  return "rank " + std::to_string(rank);
}

inline TransportFault lateFault(int32_t peer, double seconds) {
  return {SCALIFY_TRANSPORT_LATE, peer,
          rankText(peer) + " is late: nothing came for " +
              std::to_string(seconds).substr(0, 5) + " s"};
}

/// Finds the rank that blocks `first`. A rank may wait for another, which waits
/// in turn; the end of this chain waits for none and blocks all. In a cycle
/// every rank waits, so `first` is returned. `next(rank)` is the rank that
/// `rank` waits for, -1 for none.
template <typename Next>
int32_t findBlockingRank(int32_t first, int32_t size, Next next) {
  int32_t last = first;
  for (int32_t steps = 0; steps < size; ++steps) {
    int32_t other = next(last);
    if (other < 0)
      return last;
    last = other;
  }
  return first;
}

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_TRANSPORTFAULT_H
