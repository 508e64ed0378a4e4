// One rank, as a launcher starts it: CommRank TRANSPORT
// check|kill|late|abort|pass Prints "rank R: TEXT", where a rank that found
// nothing wrong says "fine".
#include "CommChecks.h"
#include "comm/OpenCommunicator.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <thread>

using namespace scalify::rt;

namespace {
void allReduce(Communicator &comm, const char *name) {
  Collective c;
  c.elements = 1000;
  c.members.resize(size_t(comm.size()));
  std::iota(c.members.begin(), c.members.end(), 0);
  c.name = name;
  std::vector<float> memory(1000, 1.0f);
  comm.run(c, memory.data(), memory.data());
}

/// The last rank does what it should not.
std::string fail(Communicator &comm, const std::string &how) {
  bool isCulprit = comm.rank() == comm.size() - 1;
  allReduce(comm, "first");
  comm.beginStep(3);
  if (isCulprit && how == "kill")
    ::raise(SIGKILL);
  if (isCulprit && how == "late")
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  if (isCulprit && how == "abort")
    comm.abort("a weight is NaN");
  allReduce(comm, "grads");
  return "";
}

std::string check(Communicator &comm) {
  std::string text = scalify::test::checkGroups(comm);
  return text.empty() ? scalify::test::checkLong(comm) : text;
}

std::string run(const char *transport, const std::string &what) {
  try {
    scalify_rt_comm_options options = {};
    options.transport = transport;
    // Another after the first has closed, as a script may open them.
    for (int turn = 0; turn < 2; ++turn) {
      OpenedCommunicator opened = openCommunicator(options);
      Communicator &comm = *opened.communicator;
      std::string text;
      if (turn)
        allReduce(comm, "again");
      else
        text = what == "check" ? check(comm) : fail(comm, what);
      if (!text.empty())
        return text;
    }
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int32_t rank = 0, size = 0;
  scalify_rt_comm_launched(&rank, &size);
  std::string text = run(argv[1], argv[2]);
  std::printf("rank %d: %s\n", rank, text.empty() ? "fine" : text.c_str());
  std::fflush(stdout);
  return text.empty() ? 0 : 1;
}
