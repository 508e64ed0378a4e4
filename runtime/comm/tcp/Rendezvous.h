// How the ranks of transport `tcp` find one another.
#ifndef SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "comm/tcp/Sockets.h"

namespace scalify::rt::tcp {

/// Another rank: a connection to it, and where it is for people.
struct Peer {
  File connection;
  int32_t process = 0;
  std::string host;
};

/// Joins the other ranks at `meeting`: "HOST:PORT", where rank 0 listens, or
/// "file:PATH", a file that all of them see and in which rank 0 says where it
/// is. Returns the peers by rank, this rank's own without a connection. Throws
/// Error that names the ranks which do not come.
std::vector<Peer> join(const scalify_transport_options &options,
                       const std::string &meeting);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_RENDEZVOUS_H
