// Who has died: MPI does not say, and mpirun ends the job a second later.
#ifndef SCALIFY_RUNTIME_COMM_MPI_WATCH_H
#define SCALIFY_RUNTIME_COMM_MPI_WATCH_H

#include "support/File.h"

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace scalify::rt::mpi {

/// Every rank has a connection to rank 0, which ends with its process. A thread
/// of rank 0, asleep until then, tells the others.
class Watch {
public:
  /// Called by all ranks of a communicator. Where a rank cannot reach rank 0,
  /// it says so on its standard error, and is not watched.
  Watch(int rank, int size, MPI_Comm comm);
  /// Leaves: this rank has not died.
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// The first rank that died, or -1.
  int32_t dead();
  /// "process 4711 of node1", once it has died; "" where nobody knows.
  const std::string &process() const { return died; }

private:
  /// What a rank says of itself, and what rank 0 says of one that died.
  struct Word {
    uint64_t token; // of this job, so that no stranger is taken for a rank
    int32_t rank;   // -1 where rank 0 leaves
    int32_t process;
    char host[64];
  };
  /// Where rank 0 listens; no port where it cannot.
  struct Invitation {
    uint64_t token;
    int32_t port;
    char addresses[2000]; // one a line
  };
  struct Client {
    Word word;
    File connection;
  };
  Word ownWord(int32_t rank) const;
  void invite(Invitation &invitation);
  void join(const Invitation &invitation, int rank);
  void serve();
  void greet();
  bool hear(Client &client);
  void setFallen(const Word &word);

  uint64_t token = 0;
  File listener, stop;
  std::vector<Client> clients; // of rank 0, used by its thread alone
  std::thread server;
  File toFirst;     // of the others
  Word first = {};  // rank 0
  std::string died; // written before `fallen` is
  std::atomic<int32_t> fallen{-1};
};

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_WATCH_H
