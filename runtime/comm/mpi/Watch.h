// Detection of dead ranks: MPI does not report them, and mpirun ends the job a
// second later.
#ifndef SCALIFY_RUNTIME_COMM_MPI_WATCH_H
#define SCALIFY_RUNTIME_COMM_MPI_WATCH_H

#include "comm/tcp/Callers.h"
#include "support/File.h"

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace scalify::rt::mpi {

/// Every rank has a connection to rank 0, which ends with the rank's process. A
/// thread of rank 0 sleeps until then and tells the other ranks.
class Watch {
public:
  /// Called by all ranks of a communicator. A rank that cannot reach rank 0
  /// reports this on its standard error, and is not watched.
  Watch(int rank, int size, MPI_Comm comm);
  /// Leaves without being reported as dead.
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// Returns the first rank that died, or -1.
  int32_t dead();
  /// Returns "process 4711 of node1" once a rank has died; "" if unknown.
  const std::string &process() const { return died; }

private:
  /// A rank's description of itself, or rank 0's description of a dead rank.
  struct Word {
    int32_t rank; // -1 when rank 0 leaves
    int32_t process;
    char host[64];
  };
  /// The address where rank 0 listens; port 0 if it cannot listen.
  struct Invitation {
    char secret[80]; // by which ranks and strangers differ
    int32_t port;
    char addresses[2000]; // one per line
  };
  struct Client {
    Word word;
    File connection;
  };
  Word describeSelf(int32_t rank) const;
  void invite(Invitation &invitation);
  void join(const Invitation &invitation, int rank, int size);
  bool meet(int rank, int size, const Patience &patience);
  void serve();
  void greet();
  void admit(tcp::Callers::Caller caller);
  bool hear(Client &client);
  void setDeadRank(const Word &word);

  tcp::Knowledge knowledge;
  File listener, stop;
  std::unique_ptr<tcp::Callers> callers; // of rank 0, used by its thread
  std::vector<Client> clients;           // of rank 0, used by its thread alone
  std::thread server;
  File toRankZero;  // the connection of other ranks to rank 0
  Word first = {};  // rank 0
  std::string died; // valid once `fallen` is set
  std::atomic<int32_t> fallen{-1};
};

} // namespace scalify::rt::mpi

#endif // SCALIFY_RUNTIME_COMM_MPI_WATCH_H
