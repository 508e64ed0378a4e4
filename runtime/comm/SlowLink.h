// Emulation of a link worse than the real one, for tests and benchmarks.
#ifndef SCALIFY_RUNTIME_COMM_SLOWLINK_H
#define SCALIFY_RUNTIME_COMM_SLOWLINK_H

#include "comm/Communicator.h"

#include <limits>
#include <memory>

namespace scalify::rt {

struct Link {
  double bandwidth = std::numeric_limits<double>::infinity(); // bytes a second
  double latency = 0;                                         // seconds
  /// A collective takes 1 to 1 + jitter times as long, uniformly at random.
  double jitter = 0;
  /// Every `every`-th collective, counted from 1, takes `factor` times as long;
  /// 0 for none.
  uint64_t every = 0;
  double factor = 1;
  uint64_t seed = 0;
};

/// Parses "bandwidth=2e8,latency=1e-4,jitter=0.5,straggler=20:8,seed=1"; every
/// key is optional. Throws an Error that names the malformed part.
Link parseLink(const std::string &text);

/// Returns a communicator with the results of `inner`, bit for bit, whose
/// collectives take at least as long as the link would. `poll` is that of
/// `inner`.
std::unique_ptr<Communicator>
makeSlowCommunicator(std::unique_ptr<Communicator> inner, const Link &link,
                     int (*poll)(void *context), void *context);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_SLOWLINK_H
