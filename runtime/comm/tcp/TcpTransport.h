// Ranks of any machines, by connections between all of them.
#ifndef SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H
#define SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H

#include "scalify/transport.h"

#include <string>

namespace scalify::rt::tcp {

/// Joins the other ranks where `meeting` says (Rendezvous.h); throws Error.
scalify_transport open(const scalify_transport_options &options,
                       const std::string &meeting);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H
