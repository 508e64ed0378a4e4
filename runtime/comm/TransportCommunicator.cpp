#include "comm/TransportCommunicator.h"
#include "comm/Checksum.h"
#include "comm/JoinParts.h"
#include "comm/Pieces.h"
#include "support/Error.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

using namespace scalify::rt;

namespace {
/// Memory for received elements that are not reduced yet. Larger pieces take
/// several rounds.
constexpr int64_t scratchBytes = int64_t(1) << 20;

/// The messages of one round.
class Round {
public:
  void clear() {
    sends.clear();
    receives.clear();
  }
  void send(int32_t peer, const uint8_t *data, int64_t bytes) {
    sends.push_back(
        {peer, nullptr, const_cast<uint8_t *>(data), uint64_t(bytes)});
  }
  void receive(int32_t peer, uint8_t *data, int64_t bytes) {
    receives.push_back({peer, nullptr, data, uint64_t(bytes)});
  }

  std::vector<scalify_transport_message> sends, receives;
  std::vector<MessageHeader> sentHeaders, receivedHeaders;
};

class TransportCommunicator : public Communicator {
public:
  TransportCommunicator(const scalify_transport &transport,
                        const scalify_transport_wait &wait)
      : transport(transport), poll(wait.poll), pollContext(wait.context),
        wait({wait.seconds, pollBoth, this}), sent(size_t(transport.size)),
        received(size_t(transport.size)) {}
  ~TransportCommunicator() override { transport.close(transport.self); }

  int32_t rank() const override { return transport.rank; }
  int32_t size() const override { return transport.size; }
  void beginStep(uint64_t number, uint64_t id) override {
    step = number;
    program = id;
    isInterrupted = false;
  }
  double timeout() const override { return wait.seconds; }
  uint64_t bytesSent() const override { return total; }
  void addBytesSent(uint64_t bytes) override { total += bytes; }
  void setPoll(int (*poll)(void *), void *context) override {
    this->poll = poll;
    pollContext = context;
  }
  void interrupt(const char *why) noexcept override {
    if (isInterrupted)
      return;
    std::snprintf(interruptReason.data(), interruptReason.size(), "%s", why);
    isInterrupted = true;
  }

  void run(const Collective &collective, const void *source,
           void *destination) override {
    std::unique_lock<std::mutex> lock(inUse, std::try_to_lock);
    if (!lock)
      throw Error(SCALIFY_RT_BUSY,
                  "the communicator is in use on another thread");
    if (!reason.empty())
      throw Error(SCALIFY_RT_COMM, reason);
    current = &collective;
    try {
      runKind(static_cast<const uint8_t *>(source),
              static_cast<uint8_t *>(destination));
    } catch (const std::exception &error) {
      abort(error.what());
      throw;
    }
  }

  void abort(const std::string &text) override {
    if (!reason.empty())
      return;
    reason = text;
    transport.abort(transport.self, text.c_str());
  }

private:
  static int pollBoth(void *context) {
    auto *self = static_cast<TransportCommunicator *>(context);
    return self->isInterrupted || (self->poll && self->poll(self->pollContext));
  }
  void runKind(const uint8_t *source, uint8_t *destination);
  void allReduce(const uint8_t *source, uint8_t *destination);
  void reduceScatter(const uint8_t *source, uint8_t *destination);
  void allGather(const uint8_t *source, uint8_t *destination);
  void broadcast(const uint8_t *source, uint8_t *destination);
  void allToAll(const uint8_t *source, uint8_t *destination);
  void permute(const uint8_t *source, uint8_t *destination);

  template <typename PieceOf>
  void reduceOwnPiece(const uint8_t *source, uint8_t *destination,
                      PieceOf pieceAt);
  void exchange();
  void check(const MessageHeader &expected, size_t index);

  [[noreturn]] void failed(scalify_rt_status status,
                           const std::string &text) const {
    throw Error(status, describe(*current, step) + ": " + text);
  }
  uint8_t *scratchOf(int64_t bytes) {
    if (scratchSize < bytes) {
      scratch.reset(new uint8_t[size_t(bytes)]);
      scratchSize = bytes;
    }
    return scratch.get();
  }
  int64_t members() const { return int64_t(current->members.size()); }
  int64_t width() const { return byteWidth(current->type); }
  int64_t findPlace();

  scalify_transport transport;
  int (*poll)(void *context);
  void *pollContext;
  std::atomic<bool> isInterrupted{false};
  std::array<char, 1024> interruptReason =
      {}; // valid once isInterrupted is set
  std::mutex inUse;
  scalify_transport_wait wait;
  uint64_t step = 0, program = 0, total = 0;
  std::vector<uint64_t> sent, received; // messages, by peer
  std::string reason;                   // why this rank has stopped

  const Collective *current = nullptr;
  int64_t place = 0; // this rank's, in the group
  Round round;
  std::vector<bool> seen; // scratch, by rank
  std::vector<const void *> parts;
  std::unique_ptr<uint8_t[]> scratch;
  int64_t scratchSize = 0;
};

void copy(const uint8_t *source, uint8_t *destination, int64_t bytes) {
  if (bytes && source != destination)
    std::memmove(destination, source, size_t(bytes));
}

int64_t TransportCommunicator::findPlace() {
  const std::vector<int32_t> &group = current->members;
  seen.assign(static_cast<size_t>(size()), false);
  int64_t found = -1;
  for (size_t i = 0; i < group.size(); ++i) {
    int32_t member = group[i];
    if (member < 0 || member >= size() || seen[size_t(member)])
      failed(SCALIFY_RT_BAD_ARGUMENT,
             "rank " + std::to_string(member) + " cannot be in a group of " +
                 std::to_string(size()) + " ranks, or is in it twice");
    seen[size_t(member)] = true;
    if (member == rank())
      found = int64_t(i);
  }
  if (found < 0)
    failed(SCALIFY_RT_BAD_ARGUMENT,
           "rank " + std::to_string(rank()) + " is not in its own group");
  return found;
}

void TransportCommunicator::runKind(const uint8_t *source,
                                    uint8_t *destination) {
  using Kind = Collective::Kind;
  const Collective &collective = *current;
  if (collective.kind >= Kind::Permute)
    return permute(source, destination);
  place = findPlace();
  bool isJoined = collective.kind == Kind::AllReduce ||
                  collective.kind == Kind::ReduceScatter;
  bool isCut = collective.kind == Kind::ReduceScatter ||
               collective.kind == Kind::AllToAll;
  if (isJoined)
    requireReduction(collective.join, collective.type);
  if (collective.elements < 0 || (isCut && collective.elements % members()))
    failed(SCALIFY_RT_BAD_ARGUMENT, std::to_string(collective.elements) +
                                        " elements cannot be divided among " +
                                        std::to_string(members()) + " ranks");
  if (members() == 1)
    return copy(source, destination, collective.elements * width());
  switch (collective.kind) {
  case Kind::AllReduce:
    return allReduce(source, destination);
  case Kind::ReduceScatter:
    return reduceScatter(source, destination);
  case Kind::AllGather:
    return allGather(source, destination);
  case Kind::Broadcast:
    return broadcast(source, destination);
  default:
    return allToAll(source, destination);
  }
}

/// Sends every other member its piece of `source` and reduces this rank's own
/// piece to `destination`, in rounds that fit the scratch memory. `pieceAt(0)`
/// is the longest piece, so that all ranks make the same number of rounds.
template <typename PieceOf>
void TransportCommunicator::reduceOwnPiece(const uint8_t *source,
                                           uint8_t *destination,
                                           PieceOf pieceAt) {
  int64_t others = members() - 1;
  int64_t limit = std::max(scratchBytes / (others * width()), int64_t(1024));
  int64_t longest = pieceAt(0).elements;
  int64_t at = 0;
  do {
    auto inRound = [&](int64_t member) {
      Piece piece = pieceAt(member);
      return Piece{piece.begin + at,
                   std::clamp(piece.elements - at, int64_t(0), limit)};
    };
    Piece own = inRound(place);
    int64_t ownBytes = own.elements * width();
    uint8_t *free = scratchOf(others * ownBytes);
    round.clear();
    parts.clear();
    for (int64_t i = 0; i < members(); ++i) {
      if (i == place) {
        parts.push_back(source + own.begin * width());
        continue;
      }
      int32_t peer = current->members[size_t(i)];
      Piece piece = inRound(i);
      round.send(peer, source + piece.begin * width(),
                 piece.elements * width());
      round.receive(peer, free, ownBytes);
      parts.push_back(free);
      free += ownBytes;
    }
    exchange();
    joinParts(current->join, current->type, parts, destination + at * width(),
              own.elements);
    at += limit;
  } while (at < longest);
}

void TransportCommunicator::allReduce(const uint8_t *source,
                                      uint8_t *destination) {
  auto pieceAt = [&](int64_t member) {
    return getPiece(current->elements, members(), member);
  };
  Piece own = pieceAt(place);
  uint8_t *joined = destination + own.begin * width();
  reduceOwnPiece(source, joined, pieceAt);
  round.clear();
  for (int64_t i = 0; i < members(); ++i) {
    if (i == place)
      continue;
    int32_t peer = current->members[size_t(i)];
    Piece piece = pieceAt(i);
    round.send(peer, joined, own.elements * width());
    round.receive(peer, destination + piece.begin * width(),
                  piece.elements * width());
  }
  exchange();
}

void TransportCommunicator::reduceScatter(const uint8_t *source,
                                          uint8_t *destination) {
  int64_t elements = current->elements / members();
  reduceOwnPiece(source, destination, [&](int64_t member) {
    return Piece{member * elements, elements};
  });
}

void TransportCommunicator::allGather(const uint8_t *source,
                                      uint8_t *destination) {
  int64_t bytes = current->elements * width();
  round.clear();
  for (int64_t i = 0; i < members(); ++i) {
    int32_t peer = current->members[size_t(i)];
    if (i == place)
      continue;
    round.send(peer, source, bytes);
    round.receive(peer, destination + i * bytes, bytes);
  }
  exchange();
  copy(source, destination + place * bytes, bytes);
}

void TransportCommunicator::broadcast(const uint8_t *source,
                                      uint8_t *destination) {
  int64_t bytes = current->elements * width();
  round.clear();
  if (place > 0)
    round.receive(current->members[0], destination, bytes);
  for (int64_t i = 1; place == 0 && i < members(); ++i)
    round.send(current->members[size_t(i)], source, bytes);
  exchange();
  if (place == 0)
    copy(source, destination, bytes);
}

void TransportCommunicator::allToAll(const uint8_t *source,
                                     uint8_t *destination) {
  int64_t part = current->elements / members() * width();
  // In place, received parts wait in the scratch memory until the parts that
  // they overwrite are sent. The rounds are the same on ranks that are not in
  // place.
  bool isInPlace = source == destination;
  int64_t limit = std::max(scratchBytes / (members() - 1), int64_t(1024));
  int64_t at = 0;
  do {
    int64_t bytes = std::min(part - at, limit);
    uint8_t *free = isInPlace ? scratchOf(bytes * (members() - 1)) : nullptr;
    round.clear();
    for (int64_t i = 0; i < members(); ++i) {
      if (i == place)
        continue;
      int32_t peer = current->members[size_t(i)];
      round.send(peer, source + i * part + at, bytes);
      round.receive(peer, isInPlace ? free : destination + i * part + at,
                    bytes);
      free += isInPlace ? bytes : 0;
    }
    exchange();
    if (isInPlace) {
      free = scratch.get();
      for (int64_t i = 0; i < members(); ++i)
        if (i != place) {
          copy(free, destination + i * part + at, bytes);
          free += bytes;
        }
    }
    at += limit;
  } while (at < part);
  copy(source + place * part, destination + place * part, part);
}

void TransportCommunicator::permute(const uint8_t *source,
                                    uint8_t *destination) {
  int32_t to = current->to, from = current->from;
  int64_t whole = current->elements * width();
  if (to >= size() || from >= size() || (to == rank()) != (from == rank()))
    failed(SCALIFY_RT_BAD_ARGUMENT,
           "ranks " + std::to_string(to) + " and " + std::to_string(from) +
               " cannot be the destination and source of rank " +
               std::to_string(rank()) + " of " + std::to_string(size()) +
               " ranks");
  if (to == rank())
    return copy(source, destination, whole);
  bool isInPlace = source == destination && to >= 0 && from >= 0;
  int64_t at = 0;
  do {
    int64_t bytes = std::min(whole - at, scratchBytes);
    uint8_t *in = isInPlace ? scratchOf(bytes) : destination + at;
    round.clear();
    if (to >= 0)
      round.send(to, source + at, bytes);
    if (from >= 0)
      round.receive(from, in, bytes);
    exchange();
    copy(in, destination + at, bytes);
    at += scratchBytes;
  } while (at < whole);
  if (from < 0 && whole && current->kind == Collective::Kind::Permute)
    std::memset(destination, 0, size_t(whole));
}

void TransportCommunicator::exchange() {
  MessageHeader header = makeHeader(*current, step, program);
  round.sentHeaders.assign(round.sends.size(), header);
  round.receivedHeaders.assign(round.receives.size(), MessageHeader());
  for (size_t i = 0; i < round.sends.size(); ++i) {
    scalify_transport_message &message = round.sends[i];
    MessageHeader &out = round.sentHeaders[i];
    out.bytes = message.bytes;
    out.sequence = sent[size_t(message.peer)]++;
    out.checksum = checksum(message.data, message.bytes);
    message.header = &out;
  }
  for (size_t i = 0; i < round.receives.size(); ++i)
    round.receives[i].header = &round.receivedHeaders[i];
  scalify_transport_fault fault = {-1, ""};
  scalify_transport_status status = transport.exchange(
      transport.self, round.sends.data(), int32_t(round.sends.size()),
      round.receives.data(), int32_t(round.receives.size()), &wait, &fault);
  if (status == SCALIFY_TRANSPORT_SIZE)
    for (size_t i = 0; i < round.receives.size(); ++i)
      if (round.receives[i].peer == fault.peer)
        check(header, i);
  if (status == SCALIFY_TRANSPORT_INTERRUPTED && isInterrupted)
    failed(SCALIFY_RT_INTERRUPTED, interruptReason.data());
  if (status != SCALIFY_TRANSPORT_OK)
    failed(status == SCALIFY_TRANSPORT_INTERRUPTED ? SCALIFY_RT_INTERRUPTED
                                                   : SCALIFY_RT_COMM,
           fault.text);
  for (size_t i = 0; i < round.receives.size(); ++i) {
    check(header, i);
    const scalify_transport_message &message = round.receives[i];
    if (checksum(message.data, message.bytes) !=
        round.receivedHeaders[i].checksum)
      failed(SCALIFY_RT_COMM,
             "a chunk of rank " + std::to_string(message.peer) + " is damaged");
  }
  for (const scalify_transport_message &message : round.sends)
    total += message.bytes;
}

/// Throws if the header of receive `index` is not the expected one.
void TransportCommunicator::check(const MessageHeader &expected, size_t index) {
  const scalify_transport_message &message = round.receives[index];
  MessageHeader wanted = expected;
  wanted.bytes = message.bytes;
  wanted.sequence = received[size_t(message.peer)];
  std::string text =
      difference(round.receivedHeaders[index], wanted, message.peer, rank());
  if (!text.empty())
    failed(SCALIFY_RT_COMM, text);
  ++received[size_t(message.peer)];
}
} // namespace

std::unique_ptr<Communicator>
scalify::rt::makeCommunicator(const scalify_transport &transport,
                              const scalify_transport_wait &wait) {
  return std::make_unique<TransportCommunicator>(transport, wait);
}
