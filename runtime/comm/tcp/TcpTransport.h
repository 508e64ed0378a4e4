// Transport `tcp`: ranks of any machines, with a connection between each two.
#ifndef SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H
#define SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H

#include "comm/Launch.h"
#include "scalify/transport.h"

namespace scalify::rt::tcp {

/// Joins the other ranks (see Rendezvous.h). Throws an Error on failure.
scalify_transport open(const scalify_transport_options &options,
                       const Meeting &meeting);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_TCPTRANSPORT_H
