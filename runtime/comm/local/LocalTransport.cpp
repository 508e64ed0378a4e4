#include "comm/local/LocalTransport.h"
#include "comm/TransportFault.h"
#include "comm/TransportOf.h"
#include "comm/local/Rendezvous.h"
#include "support/Error.h"
#include "support/ThreadPool.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::local;

namespace {
using Clock = std::chrono::steady_clock;
using Fault = TransportFault;

/// Bytes handed over at a time: the reader starts while the writer continues.
constexpr uint64_t chunkBytes = uint64_t(64) << 10;
constexpr uint64_t frameBytes = sizeof(uint64_t) + SCALIFY_TRANSPORT_HEADER;

void futex(std::atomic<uint32_t> &word, int operation, uint32_t value,
           const timespec *timeout) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), operation, value,
            timeout, nullptr, 0);
}

/// A message in flight: its length, header and data as a stream of bytes.
struct Flow {
  Flow(const scalify_transport_message &message, Ring &ring, uint8_t *buffer)
      : message(message), ring(ring), buffer(buffer), length(message.bytes) {}

  const scalify_transport_message &message;
  Ring &ring;
  uint8_t *buffer;
  uint64_t length; // according to the sender
  uint64_t done = 0;

  bool isDone() const { return done == frameBytes + message.bytes; }

  /// Returns the memory of the stream's byte `done`, and the bytes left there.
  std::pair<uint8_t *, uint64_t> place() {
    if (done < sizeof(length))
      return {reinterpret_cast<uint8_t *>(&length) + done,
              sizeof(length) - done};
    if (done < frameBytes)
      return {static_cast<uint8_t *>(message.header) + done - sizeof(length),
              frameBytes - done};
    return {static_cast<uint8_t *>(message.data) + done - frameBytes,
            frameBytes + message.bytes - done};
  }

  /// Copies up to `available` bytes between the stream and the ring, starting
  /// at the ring's byte `position`. A copy ends where either side's memory
  /// ends.
  template <typename Copy>
  uint64_t move(uint64_t position, uint64_t available, uint64_t capacity,
                Copy copy) {
    uint64_t moved = 0;
    available = std::min(available, chunkBytes);
    while (moved < available && !isDone() && !isOfOtherSize()) {
      uint64_t offset = (position + moved) & (capacity - 1);
      auto [memory, bytes] = place();
      bytes = std::min({bytes, available - moved, capacity - offset});
      copy(memory, buffer + offset, bytes);
      moved += bytes;
      done += bytes;
    }
    return moved;
  }

  /// For receives: known once length and header have arrived.
  bool isOfOtherSize() const {
    return done >= frameBytes && length != message.bytes;
  }

  bool send(uint64_t capacity) {
    uint64_t written = ring.written.load(std::memory_order_relaxed);
    uint64_t read = ring.read.load(std::memory_order_acquire);
    uint64_t moved =
        move(written, capacity - (written - read), capacity,
             [](const uint8_t *memory, uint8_t *slot, uint64_t bytes) {
               std::memcpy(slot, memory, bytes);
             });
    ring.written.store(written + moved, std::memory_order_release);
    return moved > 0;
  }

  bool receive(uint64_t capacity) {
    uint64_t read = ring.read.load(std::memory_order_relaxed);
    uint64_t written = ring.written.load(std::memory_order_acquire);
    uint64_t moved =
        move(read, written - read, capacity,
             [](uint8_t *memory, const uint8_t *slot, uint64_t bytes) {
               std::memcpy(memory, slot, bytes);
             });
    ring.read.store(read + moved, std::memory_order_release);
    return moved > 0;
  }
};

class LocalTransport {
public:
  explicit LocalTransport(const scalify_transport_options &options)
      : rank(options.rank), size(options.size), mapping(join(options)),
        segment(mapping->segment()), own(segment.slot(rank)),
        spins(availableCores() >= size ? 2000 : 0) {
    for (int32_t peer = 0; peer < size; ++peer)
      processes.push_back(openProcess(segment.slot(peer).process));
  }
  ~LocalTransport() {
    own.state.store(State::Closed, std::memory_order_release);
    ringAll();
    for (const pollfd &process : processes)
      if (process.fd >= 0)
        ::close(process.fd);
  }
  LocalTransport(const LocalTransport &) = delete;
  LocalTransport &operator=(const LocalTransport &) = delete;

  scalify_transport_status
  exchange(const scalify_transport_message *sends, int32_t numSends,
           const scalify_transport_message *receives, int32_t numReceives,
           const scalify_transport_wait &wait, scalify_transport_fault &fault);
  void abort(const char *reason);

private:
  /// Returns a descriptor that is readable when the process ends. Threads of
  /// this process have none: they end with it.
  static pollfd openProcess(int32_t process) {
    if (process == ::getpid())
      return {-1, POLLIN, 0};
    int file = int(::syscall(SYS_pidfd_open, process, 0));
    // ESRCH: the process died since it joined. A peer without a file is dead.
    if (file < 0 && errno != ESRCH)
      throw Error(SCALIFY_RT_COMM, "cannot watch process " +
                                       std::to_string(process) + ": " +
                                       std::strerror(errno));
    return {file, POLLIN, 0};
  }

  void ring(int32_t peer) {
    Slot &slot = segment.slot(peer);
    slot.bell.fetch_add(1);
    if (slot.sleeping.load())
      futex(slot.bell, FUTEX_WAKE, INT_MAX, nullptr);
  }
  void ringAll() {
    for (int32_t peer = 0; peer < size; ++peer)
      if (peer != rank)
        ring(peer);
  }

  bool progress();
  bool isDone() const;
  void sleep(uint32_t bell);
  int32_t getPendingPeer() const;
  int32_t getBlockingRank() const;
  bool isDead(int32_t peer);
  void checkSizes();
  void checkStopped();
  void checkPeers();
  void checkTime(Clock::time_point since, const scalify_transport_wait &wait);

  int32_t rank, size;
  std::shared_ptr<Mapping> mapping;
  Segment segment;
  Slot &own;
  int spins;
  bool hasStopped = false;
  std::vector<pollfd> processes; // by rank
  std::vector<Flow> outward, inward;
};

bool LocalTransport::progress() {
  bool moved = false;
  uint64_t capacity = segment.ringBytes();
  for (Flow &flow : outward)
    if (!flow.isDone() && flow.send(capacity)) {
      ring(flow.message.peer);
      moved = true;
    }
  for (Flow &flow : inward)
    if (!flow.isDone() && flow.receive(capacity)) {
      ring(flow.message.peer);
      moved = true;
    }
  return moved;
}

bool LocalTransport::isDone() const {
  auto done = [](const Flow &flow) { return flow.isDone(); };
  return std::all_of(inward.begin(), inward.end(), done) &&
         std::all_of(outward.begin(), outward.end(), done);
}

/// Returns a peer that has not sent; if all have, one that has not received.
int32_t LocalTransport::getPendingPeer() const {
  for (const std::vector<Flow> *flows : {&inward, &outward})
    for (const Flow &flow : *flows)
      if (!flow.isDone())
        return flow.message.peer;
  return rank;
}

/// Sleeps until `bell` changes. `bell` was read before the last check of the
/// rings: if a peer has changed it since, the kernel does not sleep.
void LocalTransport::sleep(uint32_t bell) {
  own.waitsFor.store(uint32_t(getPendingPeer()) + 1, std::memory_order_relaxed);
  own.sleeping.store(1);
  timespec slice = {0, 20'000'000};
  futex(own.bell, FUTEX_WAIT, bell, &slice);
  own.sleeping.store(0);
}

void LocalTransport::checkSizes() {
  for (const Flow &flow : inward)
    if (flow.isOfOtherSize())
      throw Fault{SCALIFY_TRANSPORT_SIZE, flow.message.peer,
                  rankText(flow.message.peer) + " sent " +
                      std::to_string(flow.length) + " bytes where " +
                      rankText(rank) + " expects " +
                      std::to_string(flow.message.bytes)};
}

void LocalTransport::checkStopped() {
  uint32_t stopped = segment.stopped().load(std::memory_order_acquire);
  if (!stopped)
    return;
  int32_t peer = int32_t(stopped) - 1;
  throw Fault{SCALIFY_TRANSPORT_STOPPED, peer,
              rankText(peer) + " stopped: " + segment.slot(peer).reason};
}

bool LocalTransport::isDead(int32_t peer) {
  int32_t process = segment.slot(peer).process;
  if (process == ::getpid())
    return false;
  pollfd &file = processes[size_t(peer)];
  return file.fd < 0 || (::poll(&file, 1, 0) == 1 && file.revents);
}

void LocalTransport::checkPeers() {
  for (const std::vector<Flow> *flows : {&inward, &outward})
    for (const Flow &flow : *flows) {
      if (flow.isDone())
        continue;
      int32_t peer = flow.message.peer;
      const Slot &slot = segment.slot(peer);
      bool hasClosed =
          slot.state.load(std::memory_order_acquire) == State::Closed;
      if (!hasClosed && !isDead(peer))
        continue;
      // Its last data may have arrived between the check of the rings and now.
      if (progress())
        return;
      checkStopped();
      std::string text = rankText(peer);
      if (hasClosed)
        text += " has closed its communicator";
      else
        text += " died (process " + std::to_string(slot.process) + ")";
      throw Fault{SCALIFY_TRANSPORT_DIED, peer, text};
    }
}

int32_t LocalTransport::getBlockingRank() const {
  return findBlockingRank(getPendingPeer(), size, [&](int32_t peer) {
    Slot &slot = segment.slot(peer);
    return int32_t(slot.waitsFor.load(std::memory_order_relaxed)) - 1;
  });
}

void LocalTransport::checkTime(Clock::time_point since,
                               const scalify_transport_wait &wait) {
  if (wait.poll && wait.poll(wait.context))
    throw Fault{SCALIFY_TRANSPORT_INTERRUPTED, -1, "interrupted"};
  std::chrono::duration<double> passed = Clock::now() - since;
  if (passed.count() < wait.seconds)
    return;
  checkStopped();
  throw lateFault(getBlockingRank(), passed.count());
}

scalify_transport_status LocalTransport::exchange(
    const scalify_transport_message *sends, int32_t numSends,
    const scalify_transport_message *receives, int32_t numReceives,
    const scalify_transport_wait &wait, scalify_transport_fault &fault) {
  outward.clear();
  inward.clear();
  for (const auto *m = sends; m != sends + numSends; ++m)
    outward.emplace_back(*m, segment.ring(rank, m->peer),
                         segment.data(rank, m->peer));
  for (const auto *m = receives; m != receives + numReceives; ++m)
    inward.emplace_back(*m, segment.ring(m->peer, rank),
                        segment.data(m->peer, rank));
  try {
    checkStopped();
    Clock::time_point since = Clock::now();
    for (int idle = 0;;) {
      uint32_t bell = own.bell.load();
      bool moved = progress();
      checkSizes();
      if (isDone())
        break;
      if (moved) {
        idle = 0;
        since = Clock::now();
        continue;
      }
      checkStopped();
      if (idle++ < spins)
        continue;
      sleep(bell);
      checkPeers();
      checkTime(since, wait);
    }
    own.waitsFor.store(0, std::memory_order_relaxed);
    return SCALIFY_TRANSPORT_OK;
  } catch (const Fault &found) {
    // `waitsFor` stays: others may still follow it.
    return report(found, fault);
  }
}

void LocalTransport::abort(const char *reason) {
  if (std::exchange(hasStopped, true))
    return;
  std::snprintf(own.reason, sizeof(own.reason), "%s", reason);
  uint32_t none = 0;
  segment.stopped().compare_exchange_strong(none, uint32_t(rank) + 1);
  ringAll();
}
} // namespace

scalify_transport
scalify::rt::local::open(const scalify_transport_options &options) {
  return makeTransport(new LocalTransport(options), options);
}
