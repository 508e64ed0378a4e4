// The listener's end of greetings: strangers hold nobody up.
#ifndef SCALIFY_RUNTIME_COMM_TCP_CALLERS_H
#define SCALIFY_RUNTIME_COMM_TCP_CALLERS_H

#include "comm/tcp/Proof.h"
#include "comm/tcp/Sockets.h"

#include <chrono>

namespace scalify::rt::tcp {

/// Connections to a listener that have not proved yet that they are ranks of
/// the job. There are at most `spare` more than ranks, each for at most
/// `seconds`: a further one takes the place of the oldest from the address that
/// has most, which has had the time to answer. Dropped connections are logged,
/// with their address.
class Callers {
public:
  static constexpr size_t spare = 64;

  /// A rank of the job.
  struct Caller {
    Hello hello;
    File connection;
  };

  Callers(int32_t rank, int32_t size, Knowledge knowledge, double seconds = 5)
      : rank(rank), capacity(spare + size_t(size)),
        knowledge(std::move(knowledge)), seconds(seconds) {}

  /// Polls for up to 50 ms, `others` too, and returns the ranks that called.
  std::vector<Caller> look(const File &listener, std::vector<pollfd> &others,
                           const Patience &patience);

  /// True if there are strangers, which the next look may drop by their time.
  bool isWaiting() const { return !strangers.empty(); }

  /// Describes the refused connections for an error, or returns "".
  std::string refusals() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Stranger {
    File connection;
    std::string address;
    Clock::time_point since;
    Nonce nonce = {};
    Hello hello = {};
    size_t done = 0; // bytes of the hello
  };
  enum class State { Waits, Proved, Dropped };

  void accept(const File &listener);
  bool makeRoom();
  State hear(Stranger &stranger);
  State judge(Stranger &stranger);
  void log(const std::string &address, const std::string &why);

  int32_t rank;
  size_t capacity;
  Knowledge knowledge;
  std::chrono::duration<double> seconds;
  std::vector<Stranger> strangers; // by age
  size_t numRefused = 0;
  std::string lastRefused;
};

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_CALLERS_H
