// The rendezvous of ranks of transport `tcp`.
#ifndef SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "comm/tcp/Sockets.h"

namespace scalify::rt::tcp {

/// Another rank: the connection to it, and its host for error texts.
struct Peer {
  File connection;
  int32_t process = 0;
  std::string host;
};

/// Joins the other ranks at `meeting`: "HOST:PORT", where rank 0 listens, or
/// "file:PATH", a file that all ranks see and in which rank 0 writes its
/// address. Returns the peers by rank, this rank's own without a connection.
/// Throws an Error that names missing ranks.
std::vector<Peer> join(const scalify_transport_options &options,
                       const std::string &meeting);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
