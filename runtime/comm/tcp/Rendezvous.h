// The rendezvous of ranks of transport `tcp`.
#ifndef SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "comm/Launch.h"
#include "comm/tcp/Sockets.h"

namespace scalify::rt::tcp {

/// Another rank: the connection to it, and its host for error texts.
struct Peer {
  File connection;
  int32_t process = 0;
  std::string host;
};

/// Joins the other ranks. Each two prove to one another that they know the
/// job's secret; other peers are refused and logged, and the ranks wait on.
/// Returns the peers by rank, this rank's own without a connection. Throws an
/// Error that names missing ranks, and one if ranks that meet over a network
/// have no secret.
std::vector<Peer> join(const scalify_transport_options &options,
                       const Meeting &meeting);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
