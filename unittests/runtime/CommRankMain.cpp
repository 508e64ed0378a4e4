// A rank as a launcher starts it: CommRank TRANSPORT
// check|kill|kill0|late|chain|abort|absent|interrupt|pass|torn|shape
// Prints "rank R: TEXT"; a rank without errors prints "fine".
#include "CommChecks.h"
#include "Damaging.h"
#include "comm/Launch.h"
#include "comm/OpenCommunicator.h"
#include "comm/TransportCommunicator.h"
#include "comm/local/LocalTransport.h"
#include "comm/tcp/TcpTransport.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <numeric>
#include <stdexcept>
#include <thread>

using namespace scalify::rt;

namespace {
void allReduce(Communicator &comm, const char *name, int64_t elements = 1000) {
  Collective c;
  c.elements = elements;
  c.members.resize(size_t(comm.size()));
  std::iota(c.members.begin(), c.members.end(), 0);
  c.name = name;
  std::vector<float> memory(size_t(elements), 1.0f);
  comm.run(c, memory.data(), memory.data());
}

/// The last rank, or the first, misbehaves.
std::string fail(Communicator &comm, const std::string &how) {
  bool isCulprit = comm.rank() == (how == "kill0" ? 0 : comm.size() - 1);
  allReduce(comm, "first");
  std::printf("rank %d has done the first\n", comm.rank());
  std::fflush(stdout);
  comm.beginStep(3, 0);
  if (isCulprit && (how == "kill" || how == "kill0")) {
    // While its last chunk of the first collective is in flight, other ranks
    // would, rightly, name the first collective.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::raise(SIGKILL);
  }
  if (isCulprit && how == "late")
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  if (isCulprit && how == "abort")
    comm.abort("a weight is NaN");
  allReduce(comm, "grads", isCulprit && how == "shape" ? 1200 : 1000);
  return "";
}

/// Opens a transport without a communicator around it.
scalify_transport openTransport(const std::string &name, double seconds) {
  scalify_transport_options options = {};
  options.version = SCALIFY_TRANSPORT_VERSION;
  scalify_rt_comm_launched(&options.rank, &options.size);
  options.wait.seconds = seconds;
  std::string job = name == "mpi" ? "" : readJob();
  options.job = job.c_str();
  if (name == "local")
    return local::open(options);
  if (name == "tcp")
    return tcp::open(options, readMeeting());
#ifdef SCALIFY_COMM_MPI
  if (void *library = ::dlopen(SCALIFY_COMM_MPI, RTLD_NOW | RTLD_GLOBAL)) {
    auto open = reinterpret_cast<scalify_transport_open_function>(
        ::dlsym(library, SCALIFY_TRANSPORT_OPEN));
    scalify_transport transport = {};
    scalify_transport_fault fault = {-1, ""};
    if (open(&options, &transport, &fault) == SCALIFY_TRANSPORT_OK)
      return transport;
    throw std::runtime_error(fault.text);
  }
#endif
  throw std::runtime_error("transport '" + name + "' cannot be opened");
}

/// The last rank sends a damaged chunk.
std::string tear(const char *name) {
  double seconds = readTimeout();
  scalify_transport transport = openTransport(name, seconds);
  if (transport.rank == transport.size - 1)
    transport = scalify::test::Damaging::wrap(transport);
  auto comm = makeCommunicator(transport, {seconds, nullptr, nullptr});
  allReduce(*comm, "first");
  comm->beginStep(3, 0);
  allReduce(*comm, "grads");
  // Ranks that did not receive the damaged chunk may get this far.
  allReduce(*comm, "after");
  return "";
}

/// Rank 0 waits for rank 1, which later waits for rank 2, which is late.
std::string chain(Communicator &comm) {
  allReduce(comm, "first");
  comm.beginStep(3, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 * comm.rank()));
  if (comm.rank() == 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  Collective c;
  c.kind = Collective::Kind::Permute;
  c.elements = 10;
  c.name = "chain";
  c.from = comm.rank() == 2 ? -1 : comm.rank() + 1;
  c.to = comm.rank() - 1;
  std::vector<float> source(10), destination(10);
  if (comm.rank() == 1)
    c.to = -1; // else rank 0 would receive it at once
  comm.run(c, source.data(), destination.data());
  return "";
}

std::string check(Communicator &comm) {
  std::string text = scalify::test::checkGroups(comm);
  return text.empty() ? scalify::test::checkLong(comm) : text;
}

/// The last rank is interrupted while it joins the others, which are late.
void interrupt(scalify_rt_comm_options options, int32_t rank, int32_t size) {
  if (rank != size - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return;
  }
  options.poll = [](void *) { return 1; };
  try {
    openCommunicator(options);
  } catch (const std::exception &) {
    return;
  }
  throw std::runtime_error("it was not interrupted");
}

std::string run(const char *transport, const std::string &what) {
  try {
    if (what == "torn")
      return tear(transport);
    scalify_rt_comm_options options = {};
    options.transport = transport;
    // A second communicator after the first has closed, as a script may open
    // it.
    for (int turn = 0; turn < 2; ++turn) {
      int32_t rank = 0, size = 0;
      scalify_rt_comm_launched(&rank, &size);
      if (turn && what == "absent" && rank == size - 1)
        std::this_thread::sleep_for(std::chrono::seconds(2));
      if (turn && what == "interrupt")
        interrupt(options, rank, size);
      OpenedCommunicator opened = openCommunicator(options);
      Communicator &comm = *opened.communicator;
      std::string text;
      if (turn)
        allReduce(comm, "again");
      else
        text = what == "check"   ? check(comm)
               : what == "chain" ? chain(comm)
                                 : fail(comm, what);
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
