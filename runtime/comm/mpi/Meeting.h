// The rendezvous of an MPI job's ranks. Turns errors of MPI calls into faults.
#ifndef SCALIFY_RUNTIME_COMM_MPI_MEETING_H
#define SCALIFY_RUNTIME_COMM_MPI_MEETING_H

#include "comm/TransportFault.h"

#include <mpi.h>

namespace scalify::rt::mpi {

/// Throws a TransportFault if a call of MPI failed.
void call(int code, const char *what);

/// Returns when all ranks of MPI_COMM_WORLD have called it. Throws a
/// TransportFault that names the missing ranks after the timeout.
void meet(int rank, int size, const scalify_transport_wait &wait);

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_MEETING_H
