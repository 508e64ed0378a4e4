// A link worse than the one that there is, for tests and benchmarks.
#ifndef SCALIFY_RUNTIME_COMM_SLOWLINK_H
#define SCALIFY_RUNTIME_COMM_SLOWLINK_H

#include "comm/Communicator.h"

#include <limits>
#include <memory>

namespace scalify::rt {

struct Link {
  double bandwidth = std::numeric_limits<double>::infinity(); // bytes a second
  double latency = 0;                                         // seconds
  /// A collective takes 1 to 1 + jitter times as long, evenly at random.
  double jitter = 0;
  /// Every so many-th collective, from 1, takes `factor` times as long; 0 for
  /// none.
  uint64_t every = 0;
  double factor = 1;
  uint64_t seed = 0;
};

/// Reads "bandwidth=2e8,latency=1e-4,jitter=0.5,straggler=20:8,seed=1", all of
/// which may be left out; throws Error that names what it cannot read.
Link parseLink(const std::string &text);

/// Does what `inner` does, with the same bits, and returns from a collective no
/// sooner than the link had it across. `poll` is that of `inner`.
std::unique_ptr<Communicator> makeSlow(std::unique_ptr<Communicator> inner,
                                       const Link &link,
                                       int (*poll)(void *context),
                                       void *context);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_SLOWLINK_H
