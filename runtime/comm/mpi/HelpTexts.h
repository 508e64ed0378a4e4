// Keeps Open MPI's help texts from blocking a rank.
#ifndef SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H
#define SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H

namespace scalify::rt::mpi {

/// Makes Open MPI write its help texts to the process's standard error. By
/// default (4.1) it sends them to mpirun's daemon and waits for the answer,
/// which a daemon that ends a job never sends: a rank whose connection to a
/// dead one breaks would not return from MPI to report it. Does nothing under
/// another MPI.
void writeHelpTexts();

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H
