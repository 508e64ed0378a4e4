// Suppression of SIGPIPE, which a write to a dead peer raises.
#ifndef SCALIFY_RUNTIME_COMM_MPI_PIPESIGNAL_H
#define SCALIFY_RUNTIME_COMM_MPI_PIPESIGNAL_H

#include <csignal>
#include <ctime>

namespace scalify::rt::mpi {

/// Blocks SIGPIPE in this thread while it lives. Open MPI writes to its sockets
/// without suppressing the signal, which ends a program that does not handle
/// it.
class NoPipeSignal {
public:
  NoPipeSignal() {
    sigset_t pending;
    ::sigpending(&pending);
    wasPending = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  }
  ~NoPipeSignal() {
    timespec none = {0, 0};
    // A signal that was pending before belongs to the program.
    if (!wasPending)
      ::sigtimedwait(&pipe, nullptr, &none);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  NoPipeSignal(const NoPipeSignal &) = delete;
  NoPipeSignal &operator=(const NoPipeSignal &) = delete;

private:
  sigset_t pipe, before;
  bool wasPending;
};

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_PIPESIGNAL_H
