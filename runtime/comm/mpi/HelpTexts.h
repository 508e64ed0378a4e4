// Texts that Open MPI has for its users, which must not hold a rank up.
#ifndef SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H
#define SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H

namespace scalify::rt::mpi {

/// Has Open MPI write its texts to the process's standard error. Of itself
/// (4.1) it sends them to mpirun's daemon and waits for the answer, which one
/// that ends a job never gives: a rank whose connection to a dead one breaks
/// would not come back from MPI to say so. Of another MPI nothing changes.
void writeHelpTexts();

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_HELPTEXTS_H
