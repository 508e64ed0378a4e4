// Transport `mpi`: a shared object of its own, so that the runtime needs no
// MPI.
//
// Data use one communicator. Notes about ranks use another: why a rank aborted,
// that it has closed and, after a long wait, which rank it waits for.
#include "comm/WaitChain.h"
#include "comm/mpi/HelpTexts.h"
#include "comm/mpi/Meeting.h"
#include "comm/mpi/PipeSignal.h"
#include "comm/mpi/Watch.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::mpi;

namespace {
using Clock = std::chrono::steady_clock;
using Status = scalify_transport_status;
using Fault = TransportFault;

/// Precedes the data.
struct Frame {
  uint64_t length;
  uint8_t header[SCALIFY_TRANSPORT_HEADER];
};

/// MPI's counts are int. Chunks also show that data move.
constexpr uint64_t chunkBytes = uint64_t(1) << 20;

struct Note {
  enum Kind : int32_t { Stopped, Closed, WaitsFor } kind;
  int32_t rank; // that stopped first, or that the sender waits for, or -1
  char text[2048 - 8];
};

/// MPI can be initialised only once in a process, so it ends with the process.
class Library {
public:
  static Library &get() {
    static Library library;
    return library;
  }
  bool needsMainThread() const { return level < MPI_THREAD_SERIALIZED; }
  int open = 0; // transports that have not closed cleanly

private:
  Library() {
    int isInitialised = 0;
    MPI_Initialized(&isInitialised);
    if (isInitialised) {
      MPI_Query_thread(&level);
      return;
    }
    call(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level),
         "MPI_Init_thread");
    // No MPI_Finalize while a transport is open: it would wait for ranks that
    // may wait for this one. Without it mpirun ends the job. The sleep lets the
    // others report their errors first: output written just before mpirun finds
    // no process left is lost.
    std::atexit([] {
      NoPipeSignal none;
      int isFinalised = 0;
      MPI_Finalized(&isFinalised);
      if (get().open)
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      else if (!isFinalised)
        MPI_Finalize();
    });
  }
  int level = MPI_THREAD_SINGLE;
};

class MpiTransport {
public:
  explicit MpiTransport(const scalify_transport_options &options);
  void exchange(const scalify_transport_message *sends, int32_t numSends,
                const scalify_transport_message *receives, int32_t numReceives,
                const scalify_transport_wait &wait);
  void abort(const char *reason);
  /// Returns false on failure: then the transport stays alive, and MPI with it.
  bool close();

private:
  void exchangeAll(const scalify_transport_message *sends, int32_t numSends,
                   const scalify_transport_message *receives,
                   int32_t numReceives, const scalify_transport_wait &wait);

  enum class Purpose { Send, Frame, Data };
  struct Pending {
    Purpose purpose;
    size_t index; // of the message
  };

  void add(MPI_Request request, Purpose purpose, size_t index) {
    requests.push_back(request);
    pending.push_back({purpose, index});
  }
  void postSend(const scalify_transport_message &message, size_t index);
  void postData(size_t index);
  void cancelReceives() noexcept;
  bool progress();
  void readNotes();
  void send(Note::Kind kind, int32_t peer, const char *text);
  void checkNotes(Clock::duration idle);
  void checkWatch();
  void announce(int32_t peer) { send(Note::WaitsFor, peer, ""); }
  int32_t getPendingPeer() const;
  void requireThread() const;

  int rank = 0, size = 1;
  MPI_Comm data = MPI_COMM_NULL, notes = MPI_COMM_NULL;
  double patience;
  int spins = 0;

  const scalify_transport_message *sends = nullptr, *receives = nullptr;
  std::vector<MPI_Request> requests;
  std::vector<Pending> pending;
  std::vector<int> finished;
  std::vector<Frame> outFrames, inFrames;
  size_t left = 0; // unfinished requests

  std::unique_ptr<Watch> watch;
  std::vector<std::pair<MPI_Request, std::unique_ptr<Note>>> sentNotes;
  WaitChain waits;
  std::vector<bool> closed, gone; // gone: closed or stopped
  bool haveAllPeersLeft() const {
    return std::find(gone.begin(), gone.end(), false) == gone.end();
  }
  int32_t stopped = -1;
  std::string reason;
  bool hasFailed = false;
};

MpiTransport::MpiTransport(const scalify_transport_options &options)
    : patience(options.wait.seconds), waits(options.rank, options.size) {
  Library &library = Library::get();
  writeHelpTexts();
  requireThread();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != options.rank || size != options.size)
    throw Fault{SCALIFY_TRANSPORT_FAILED, -1,
                "this is rank " + std::to_string(options.rank) + " of " +
                    std::to_string(options.size) + ", but MPI's rank " +
                    std::to_string(rank) + " of " + std::to_string(size) +
                    ": was it started by this MPI's mpirun?"};
  // If they do not meet, the process ends without MPI_Finalize, which would
  // wait for the missing ranks.
  ++library.open;
  meet(rank, size, options.wait);
  for (MPI_Comm *comm : {&data, &notes}) {
    call(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  watch = std::make_unique<Watch>(rank, size, notes);
  // With more ranks than cores, a waiting rank must yield at once.
  MPI_Comm machine = MPI_COMM_NULL;
  int neighbours = 1;
  call(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                           MPI_INFO_NULL, &machine),
       "MPI_Comm_split_type");
  MPI_Comm_size(machine, &neighbours);
  MPI_Comm_free(&machine);
  if (unsigned(neighbours) <= std::thread::hardware_concurrency())
    spins = 1000;
  closed.assign(size_t(size), false);
  gone.assign(size_t(size), false);
  gone[size_t(rank)] = true;
}

void MpiTransport::requireThread() const {
  int isMain = 1;
  if (Library::get().needsMainThread())
    MPI_Is_thread_main(&isMain);
  if (!isMain)
    throw Fault{SCALIFY_TRANSPORT_FAILED, -1,
                "this MPI may be called by the main thread only (it lacks "
                "MPI_THREAD_SERIALIZED)"};
}

/// Calls `post(memory, count)` for each chunk of a message's data.
template <typename Post>
void forEachChunk(const scalify_transport_message &message, Post post) {
  for (uint64_t at = 0; at < message.bytes; at += chunkBytes)
    post(static_cast<uint8_t *>(message.data) + at,
         int(std::min(chunkBytes, message.bytes - at)));
}

void MpiTransport::postSend(const scalify_transport_message &message,
                            size_t index) {
  Frame &frame = outFrames[index];
  frame.length = message.bytes;
  std::memcpy(frame.header, message.header, sizeof(frame.header));
  MPI_Request request;
  call(MPI_Isend(&frame, sizeof(frame), MPI_BYTE, message.peer, 0, data,
                 &request),
       "MPI_Isend");
  add(request, Purpose::Send, index);
  forEachChunk(message, [&](uint8_t *memory, int count) {
    call(MPI_Isend(memory, count, MPI_BYTE, message.peer, 1, data, &request),
         "MPI_Isend");
    add(request, Purpose::Send, index);
  });
}

/// Receives the data that an arrived frame announces.
void MpiTransport::postData(size_t index) {
  const scalify_transport_message &message = receives[index];
  const Frame &frame = inFrames[index];
  std::memcpy(message.header, frame.header, sizeof(frame.header));
  if (frame.length != message.bytes)
    throw Fault{SCALIFY_TRANSPORT_SIZE, message.peer,
                rankText(message.peer) + " sent " +
                    std::to_string(frame.length) + " bytes where " +
                    rankText(rank) + " expects " +
                    std::to_string(message.bytes)};
  forEachChunk(message, [&](uint8_t *memory, int count) {
    MPI_Request request;
    call(MPI_Irecv(memory, count, MPI_BYTE, message.peer, 1, data, &request),
         "MPI_Irecv");
    add(request, Purpose::Data, index);
    ++left;
  });
}

bool MpiTransport::progress() {
  finished.resize(requests.size());
  int count = 0;
  call(MPI_Testsome(int(requests.size()), requests.data(), &count,
                    finished.data(), MPI_STATUSES_IGNORE),
       "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0)
    return false;
  left -= size_t(count);
  for (int i = 0; i < count; ++i) {
    Pending done = pending[size_t(finished[size_t(i)])];
    if (done.purpose == Purpose::Frame)
      postData(done.index);
  }
  return true;
}

void MpiTransport::send(Note::Kind kind, int32_t peer, const char *text) {
  for (int32_t to = 0; to < size; ++to) {
    if (to == rank || closed[size_t(to)])
      continue;
    auto note = std::make_unique<Note>();
    note->kind = kind;
    note->rank = peer;
    std::snprintf(note->text, sizeof(note->text), "%s", text);
    MPI_Request request;
    call(MPI_Isend(note.get(), sizeof(Note), MPI_BYTE, to, 0, notes, &request),
         "MPI_Isend");
    sentNotes.emplace_back(request, std::move(note));
  }
}

void MpiTransport::readNotes() {
  for (;;) {
    int isThere = 0;
    MPI_Status status;
    call(MPI_Iprobe(MPI_ANY_SOURCE, 0, notes, &isThere, &status), "MPI_Iprobe");
    if (!isThere)
      break;
    Note note = {};
    int32_t from = status.MPI_SOURCE;
    call(MPI_Recv(&note, sizeof(note), MPI_BYTE, from, 0, notes,
                  MPI_STATUS_IGNORE),
         "MPI_Recv");
    if (note.kind == Note::WaitsFor)
      waits.hear(from, note.rank);
    else if (note.kind == Note::Closed)
      closed[size_t(from)] = gone[size_t(from)] = true;
    else {
      gone[size_t(from)] = true;
      if (stopped < 0) {
        stopped = note.rank;
        reason = note.text;
      }
    }
  }
  sentNotes.erase(std::remove_if(sentNotes.begin(), sentNotes.end(),
                                 [](auto &sent) {
                                   int isDone = 0;
                                   MPI_Test(&sent.first, &isDone,
                                            MPI_STATUS_IGNORE);
                                   return isDone != 0;
                                 }),
                  sentNotes.end());
}

int32_t MpiTransport::getPendingPeer() const {
  int32_t peer = rank;
  for (size_t i = requests.size(); i-- > 0;)
    if (requests[i] != MPI_REQUEST_NULL) {
      bool isSend = pending[i].purpose == Purpose::Send;
      if (isSend && peer != rank)
        continue;
      peer = (isSend ? sends : receives)[pending[i].index].peer;
    }
  return peer;
}

void MpiTransport::checkNotes(Clock::duration idle) {
  readNotes();
  if (stopped >= 0)
    throw Fault{SCALIFY_TRANSPORT_STOPPED, stopped,
                rankText(stopped) + " stopped: " + reason};
  checkWatch();
  // A note may overtake data: allow the data of a closed rank time to arrive.
  int32_t peer = getPendingPeer();
  if (peer != rank && closed[size_t(peer)] && idle > std::chrono::seconds(1))
    throw Fault{SCALIFY_TRANSPORT_DIED, peer,
                rankText(peer) + " has closed its communicator"};
}

void MpiTransport::checkWatch() {
  int32_t dead = watch->dead();
  if (dead < 0 || closed[size_t(dead)])
    return;
  closed[size_t(dead)] = gone[size_t(dead)] = true;
  throw Fault{SCALIFY_TRANSPORT_DIED, dead,
              rankText(dead) + " died (" + watch->process() + ")"};
}

/// After a fault no receive may write to the caller's memory. A receive whose
/// data are in flight cannot be cancelled, and gets some time to finish.
void MpiTransport::cancelReceives() noexcept {
  Clock::time_point start = Clock::now();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (pending[i].purpose == Purpose::Send || requests[i] == MPI_REQUEST_NULL)
      continue;
    MPI_Cancel(&requests[i]);
    int isDone = 0;
    while (MPI_Test(&requests[i], &isDone, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           !isDone && Clock::now() - start < std::chrono::seconds(1))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void MpiTransport::exchange(const scalify_transport_message *sent,
                            int32_t numSends,
                            const scalify_transport_message *received,
                            int32_t numReceives,
                            const scalify_transport_wait &wait) {
  try {
    exchangeAll(sent, numSends, received, numReceives, wait);
  } catch (const Fault &) {
    cancelReceives();
    throw;
  }
}

void MpiTransport::exchangeAll(const scalify_transport_message *sent,
                               int32_t numSends,
                               const scalify_transport_message *received,
                               int32_t numReceives,
                               const scalify_transport_wait &wait) {
  requireThread();
  sends = sent;
  receives = received;
  requests.clear();
  pending.clear();
  outFrames.resize(size_t(numSends));
  inFrames.resize(size_t(numReceives));
  for (size_t i = 0; i < size_t(numReceives); ++i) {
    MPI_Request request;
    call(MPI_Irecv(&inFrames[i], sizeof(Frame), MPI_BYTE, receives[i].peer, 0,
                   data, &request),
         "MPI_Irecv");
    add(request, Purpose::Frame, i);
  }
  for (size_t i = 0; i < size_t(numSends); ++i)
    postSend(sends[i], i);
  left = requests.size();
  Clock::time_point since = Clock::now(), checked = since;
  for (int idle = 0; left;) {
    if (progress()) {
      idle = 0;
      since = Clock::now();
      continue;
    }
    Clock::time_point now = Clock::now();
    if (now - checked > std::chrono::milliseconds(10)) {
      checkNotes(now - since);
      waits.check(now - since, wait, getPendingPeer(),
                  [&](int32_t peer) { announce(peer); });
      checked = now;
    }
    if (++idle > spins)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  waits.finish([&](int32_t peer) { announce(peer); });
}

void MpiTransport::abort(const char *text) {
  hasFailed = true;
  // If another rank stopped first, pass on its reason.
  if (stopped < 0) {
    stopped = rank;
    reason = text;
  }
  send(Note::Stopped, stopped, reason.c_str());
  // Waiting ranks stop too and say so; a rank that does not check its notes is
  // not waited for. If a rank has died, mpirun ends the job within a second,
  // and all others learn of it by the watch.
  auto patient = std::chrono::milliseconds(watch->dead() < 0 ? 1000 : 100);
  Clock::time_point start = Clock::now();
  while (!haveAllPeersLeft() && Clock::now() - start < patient) {
    readNotes();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool MpiTransport::close() {
  if (hasFailed)
    return false;
  // Closed is each rank's last note: once all have it, no note is in flight.
  send(Note::Closed, -1, "");
  Clock::time_point start = Clock::now();
  while (!sentNotes.empty() || !haveAllPeersLeft()) {
    readNotes();
    std::chrono::duration<double> passed = Clock::now() - start;
    int32_t dead = watch->dead();
    bool hasDied = dead >= 0 && !closed[size_t(dead)];
    if (stopped >= 0 || hasDied || passed.count() > patience)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  MPI_Comm_free(&data);
  MPI_Comm_free(&notes);
  --Library::get().open;
  return true;
}

Status exchange(void *self, const scalify_transport_message *sends,
                int32_t numSends, const scalify_transport_message *receives,
                int32_t numReceives, const scalify_transport_wait *wait,
                scalify_transport_fault *fault) {
  NoPipeSignal none;
  try {
    static_cast<MpiTransport *>(self)->exchange(sends, numSends, receives,
                                                numReceives, *wait);
    return SCALIFY_TRANSPORT_OK;
  } catch (const Fault &found) {
    return report(found, *fault);
  }
}

void abort(void *self, const char *reason) {
  NoPipeSignal none;
  try {
    static_cast<MpiTransport *>(self)->abort(reason);
  } catch (const Fault &found) {
    // This rank fails anyway, and mpirun ends the others.
    std::fprintf(stderr,
                 "scalify: cannot tell others that this rank stops: "
                 "%s\n",
                 found.text.c_str());
  }
}

void close(void *self) {
  auto *transport = static_cast<MpiTransport *>(self);
  NoPipeSignal none;
  try {
    // Requests of a failed rank may still use the transport's memory.
    if (transport->close())
      delete transport;
  } catch (const Fault &found) {
    std::fprintf(stderr, "scalify: cannot close MPI's communicators: %s\n",
                 found.text.c_str());
  }
}
} // namespace

extern "C" __attribute__((visibility("default"))) scalify_transport_status
scalify_transport_open(const scalify_transport_options *options,
                       scalify_transport *out, scalify_transport_fault *fault) {
  NoPipeSignal none;
  try {
    if (options->version != SCALIFY_TRANSPORT_VERSION)
      throw Fault{SCALIFY_TRANSPORT_FAILED, -1,
                  "it is of another version than the runtime"};
    *out = {new MpiTransport(*options),
            options->rank,
            options->size,
            exchange,
            abort,
            close};
    return SCALIFY_TRANSPORT_OK;
  } catch (const Fault &found) {
    return report(found, *fault);
  }
}
