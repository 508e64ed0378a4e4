// Ranks of one machine, as processes or as threads of one process.
#ifndef SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H
#define SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H

#include "scalify/transport.h"

namespace scalify::rt::local {

/// Joins the job; throws Error.
scalify_transport open(const scalify_transport_options &options);

} // namespace scalify::rt::local

#endif // SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H
