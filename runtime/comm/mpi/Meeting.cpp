#include "comm/mpi/Meeting.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::mpi;

void scalify::rt::mpi::call(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw TransportFault{SCALIFY_TRANSPORT_FAILED, -1,
                       std::string(what) + ": " + text};
}

namespace {
using Clock = std::chrono::steady_clock;

/// Cancels the receives when their memory goes out of scope: even if an
/// exception is thrown, none of them takes a later message.
class Receives {
public:
  explicit Receives(MPI_Request *begin, size_t count = 1)
      : begin(begin), count(count) {}
  Receives(const Receives &) = delete;
  Receives &operator=(const Receives &) = delete;
  ~Receives() {
    for (MPI_Request *one = begin; one != begin + count; ++one)
      if (*one != MPI_REQUEST_NULL) {
        MPI_Cancel(one);
        MPI_Wait(one, MPI_STATUS_IGNORE);
      }
  }

private:
  MPI_Request *begin;
  size_t count;
};

/// The ranks meet before they make blocking collective calls: rank 0 receives a
/// hello from each rank and replies that all are there, or which are missing.
class Meeting {
public:
  Meeting(int rank, int size, const scalify_transport_wait &wait)
      : size(size), wait(wait) {
    rank == 0 ? host() : knock();
  }

private:
  static constexpr int helloTag = 23'001, welcomeTag = 23'002;
  using Text = char[1024];

  /// Tests the requests until all are done; returns false after the timeout.
  bool waitFor(std::vector<MPI_Request> &requests, double seconds) const {
    Clock::time_point start = Clock::now();
    for (;;) {
      int areDone = 0;
      call(MPI_Testall(int(requests.size()), requests.data(), &areDone,
                       MPI_STATUSES_IGNORE),
           "MPI_Testall");
      if (areDone)
        return true;
      if (wait.poll && wait.poll(wait.context))
        throw TransportFault{SCALIFY_TRANSPORT_INTERRUPTED, -1,
                             "interrupted while the ranks joined"};
      if (Clock::now() - start > std::chrono::duration<double>(seconds))
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string within() const {
    return " not joined within " + std::to_string(wait.seconds).substr(0, 5) +
           " s";
  }

  void host() {
    std::vector<MPI_Request> hellos(size_t(size), MPI_REQUEST_NULL);
    Receives receives(hellos.data(), hellos.size());
    for (int peer = 1; peer < size; ++peer)
      call(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, helloTag, MPI_COMM_WORLD,
                     &hellos[size_t(peer)]),
           "MPI_Irecv");
    std::vector<bool> isThere(size_t(size), true);
    std::string missing;
    int32_t first = -1;
    if (!waitFor(hellos, wait.seconds))
      for (int peer = 1; peer < size; ++peer) {
        // MPI_Testall leaves the requests as they are if any is unfinished.
        int isDone = 0;
        MPI_Test(&hellos[size_t(peer)], &isDone, MPI_STATUS_IGNORE);
        if (isDone)
          continue;
        isThere[size_t(peer)] = false;
        missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
        first = first < 0 ? peer : first;
      }
    Text text = "";
    if (!missing.empty())
      std::snprintf(text, sizeof(text), "rank %s has%s", missing.c_str(),
                    within().c_str());
    std::vector<MPI_Request> welcomes;
    for (int peer = 1; peer < size; ++peer)
      if (isThere[size_t(peer)])
        call(MPI_Isend(text, sizeof(text), MPI_BYTE, peer, welcomeTag,
                       MPI_COMM_WORLD, &welcomes.emplace_back()),
             "MPI_Isend");
    // The peers wait for this message.
    waitFor(welcomes, wait.seconds);
    if (!missing.empty())
      throw TransportFault{SCALIFY_TRANSPORT_LATE, first, text};
  }

  void knock() const {
    Text text = "";
    std::vector<MPI_Request> both(2, MPI_REQUEST_NULL);
    Receives welcome(both.data());
    call(MPI_Irecv(text, sizeof(text), MPI_BYTE, 0, welcomeTag, MPI_COMM_WORLD,
                   &both[0]),
         "MPI_Irecv");
    call(MPI_Isend(nullptr, 0, MPI_BYTE, 0, helloTag, MPI_COMM_WORLD, &both[1]),
         "MPI_Isend");
    // Rank 0 times out first, and says which ranks are missing.
    if (!waitFor(both, wait.seconds + 1))
      throw TransportFault{SCALIFY_TRANSPORT_LATE, 0, "rank 0 has" + within()};
    if (text[0])
      throw TransportFault{SCALIFY_TRANSPORT_STOPPED, 0,
                           std::string("rank 0 stopped: ") + text};
  }

  int size;
  const scalify_transport_wait &wait;
};

} // namespace

void scalify::rt::mpi::meet(int rank, int size,
                            const scalify_transport_wait &wait) {
  Meeting(rank, size, wait);
}
