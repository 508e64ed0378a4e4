// Transport `local`: ranks of one machine, as processes or threads of a
// process.
#ifndef SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H
#define SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H

#include "scalify/transport.h"

namespace scalify::rt::local {

/// Joins the job. Throws an Error on failure.
scalify_transport open(const scalify_transport_options &options);

} // namespace scalify::rt::local

#endif // SCALIFY_RUNTIME_COMM_LOCAL_LOCALTRANSPORT_H
