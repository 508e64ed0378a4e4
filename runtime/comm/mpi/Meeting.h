// How ranks of an MPI job meet, and how calls of MPI become faults.
#ifndef SCALIFY_RUNTIME_COMM_MPI_MEETING_H
#define SCALIFY_RUNTIME_COMM_MPI_MEETING_H

#include "comm/TransportFault.h"

#include <mpi.h>

namespace scalify::rt::mpi {

/// Throws a TransportFault where a call of MPI failed.
void call(int code, const char *what);

/// Returns when all ranks of MPI_COMM_WORLD have called it. Throws a
/// TransportFault that names who is missing when the time is over.
void meet(int rank, int size, const scalify_transport_wait &wait);

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_MEETING_H
