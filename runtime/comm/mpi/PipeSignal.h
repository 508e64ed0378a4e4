// What a process gets for writing to a peer that is no longer there.
#ifndef SCALIFY_RUNTIME_COMM_MPI_PIPESIGNAL_H
#define SCALIFY_RUNTIME_COMM_MPI_PIPESIGNAL_H

#include <csignal>
#include <ctime>

namespace scalify::rt::mpi {

/// While it lives this thread gets no SIGPIPE, which ends a program that has
/// not asked for it. Open MPI writes to its sockets without keeping it away.
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
    // One that was there before is the program's.
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
