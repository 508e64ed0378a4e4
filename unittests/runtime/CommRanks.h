// Ranks for tests, as threads of this process or as separate processes.
#ifndef SCALIFY_UNITTESTS_RUNTIME_COMMRANKS_H
#define SCALIFY_UNITTESTS_RUNTIME_COMMRANKS_H

#include "comm/Communicator.h"
#include "comm/Launch.h"
#include "scalify/transport.h"

#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace scalify::test {

/// The body of one rank; returns an error text, or "".
using Body = std::function<std::string(rt::Communicator &)>;

inline rt::Meeting meetAt(std::string place) {
  rt::Meeting meeting;
  meeting.place = std::move(place);
  return meeting;
}

/// Returns a job name that no other test has.
std::string freshJob();

scalify_transport openLocal(const std::string &job, int32_t rank, int32_t size,
                            double seconds);

/// A communicator over `local`; ranks may be late by `seconds`.
std::unique_ptr<rt::Communicator> joinLocal(const std::string &job,
                                            int32_t rank, int32_t size,
                                            double seconds = 20);

/// Implements an all-gather whose ranks all have this one's data.
void repeat(const rt::Collective &collective, const void *source,
            void *destination);

/// Returns the ranks' texts, or the texts of their exceptions.
std::vector<std::string> runThreads(int32_t size, const Body &body,
                                    double seconds = 20);
std::vector<std::string> runProcesses(int32_t size, const Body &body,
                                      double seconds = 20);

/// Ranks as processes that the test may kill. Each yields the text that its
/// body returned, or "killed by signal 9", or "hangs" if it does not end within
/// 30 s.
class Processes {
public:
  Processes(int32_t size, const Body &body, double seconds = 20);
  ~Processes();
  Processes(const Processes &) = delete;
  Processes &operator=(const Processes &) = delete;
  pid_t process(int32_t rank) const { return ranks[size_t(rank)].process; }
  std::vector<std::string> wait();

private:
  struct Rank {
    pid_t process;
    int output;
  };
  std::vector<Rank> ranks;
};

} // namespace scalify::test

#endif // SCALIFY_UNITTESTS_RUNTIME_COMMRANKS_H
