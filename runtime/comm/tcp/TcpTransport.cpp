#include "comm/tcp/TcpTransport.h"
#include "comm/TransportOf.h"
#include "comm/WaitChain.h"
#include "comm/tcp/Link.h"
#include "support/Error.h"

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
using Clock = std::chrono::steady_clock;
using Fault = TransportFault;

class TcpTransport {
public:
  TcpTransport(const scalify_transport_options &options, const Meeting &meeting)
      : rank(options.rank), size(options.size),
        waits(options.rank, options.size) {
    for (Peer &peer : join(options, meeting))
      links.emplace_back(std::move(peer), size);
    links[size_t(rank)].lost = "it is this rank itself";
  }
  ~TcpTransport() { close(); }
  TcpTransport(const TcpTransport &) = delete;
  TcpTransport &operator=(const TcpTransport &) = delete;

  scalify_transport_status
  exchange(const scalify_transport_message *sends, int32_t numSends,
           const scalify_transport_message *receives, int32_t numReceives,
           const scalify_transport_wait &wait, scalify_transport_fault &fault);
  void abort(const char *reason);

private:
  void exchangeAll(const scalify_transport_wait &wait);
  bool progress();
  bool isDone() const;
  void sleep(int milliseconds);
  void tell(Frame::Kind kind, int32_t about, const std::string &text);
  int32_t getPendingPeer() const;
  void checkSizes() const;
  void checkPeers() const;
  void checkStopped() const;
  void announce(int32_t peer) { tell(Frame::WaitsFor, peer, ""); }
  void leave();
  void close();

  int32_t rank, size;
  std::vector<Link> links; // by rank; this rank's own has no connection
  WaitChain waits;
  std::vector<pollfd> files;
  int32_t stopped = -1; // the rank that aborted first
  std::string reason;
  bool hasLeft = false;
};

/// Returns true if any message moved; notes move too, uncounted.
bool TcpTransport::progress() {
  bool moved = false;
  for (size_t peer = 0; peer < links.size(); ++peer) {
    moved |= links[peer].send();
    moved |=
        links[peer].receive([&](const Frame &note, const std::string &text) {
          if (note.kind == Frame::WaitsFor) {
            waits.hear(int32_t(peer), note.rank);
          } else if (note.kind == Frame::Stopped && stopped < 0) {
            stopped = note.rank;
            reason = text;
          }
        });
  }
  return moved;
}

bool TcpTransport::isDone() const {
  for (const Link &link : links)
    if (!link.isDone())
      return false;
  return true;
}

void TcpTransport::sleep(int milliseconds) {
  files.clear();
  for (const Link &link : links)
    files.push_back(link.wanted());
  (void)::poll(files.data(), files.size(), milliseconds);
}

void TcpTransport::tell(Frame::Kind kind, int32_t about,
                        const std::string &text) {
  Frame note;
  note.kind = kind;
  note.rank = about;
  for (Link &link : links)
    if (link.lost.empty() && !link.hasClosed) {
      link.add(note, text);
      link.send();
    }
}

/// Returns a peer that has not sent; if all have, one that has not received.
int32_t TcpTransport::getPendingPeer() const {
  int32_t found = rank;
  for (size_t peer = links.size(); peer-- > 0;)
    if (!links[peer].isDone() && (links[peer].isReceiving() || found == rank))
      found = int32_t(peer);
  return found;
}

void TcpTransport::checkSizes() const {
  for (size_t peer = 0; peer < links.size(); ++peer)
    if (const uint64_t *length = links[peer].otherLength())
      throw Fault{SCALIFY_TRANSPORT_SIZE, int32_t(peer),
                  rankText(int32_t(peer)) + " sent " + std::to_string(*length) +
                      " bytes where " + rankText(rank) +
                      " expects another number"};
}

void TcpTransport::checkStopped() const {
  if (stopped >= 0)
    throw Fault{SCALIFY_TRANSPORT_STOPPED, stopped,
                rankText(stopped) + " stopped: " + reason};
}

void TcpTransport::checkPeers() const {
  for (size_t peer = 0; peer < links.size(); ++peer) {
    const Link &link = links[peer];
    if (link.isDone() || link.lost.empty())
      continue;
    std::string text = rankText(int32_t(peer));
    if (link.hasClosed)
      text += " has closed its communicator";
    else
      text += " died (process " + std::to_string(link.peer.process) + " on " +
              link.peer.host + ": " + link.lost + ")";
    throw Fault{SCALIFY_TRANSPORT_DIED, int32_t(peer), text};
  }
}

void TcpTransport::exchangeAll(const scalify_transport_wait &wait) {
  checkStopped();
  Clock::time_point since = Clock::now(), checked = since;
  while (true) {
    bool moved = progress();
    checkSizes();
    if (isDone())
      break;
    checkStopped();
    checkPeers();
    Clock::time_point now = Clock::now();
    if (moved)
      since = now;
    else
      sleep(20);
    if (now - checked < std::chrono::milliseconds(10))
      continue;
    checked = now;
    waits.check(now - since, wait, getPendingPeer(),
                [&](int32_t peer) { announce(peer); });
  }
  waits.finish([&](int32_t peer) { announce(peer); });
}

scalify_transport_status
TcpTransport::exchange(const scalify_transport_message *sends, int32_t numSends,
                       const scalify_transport_message *receives,
                       int32_t numReceives, const scalify_transport_wait &wait,
                       scalify_transport_fault &fault) {
  std::vector<std::pair<const scalify_transport_message *,
                        const scalify_transport_message *>>
      both(links.size());
  for (const auto *m = sends; m != sends + numSends; ++m)
    both[size_t(m->peer)].first = m;
  for (const auto *m = receives; m != receives + numReceives; ++m)
    both[size_t(m->peer)].second = m;
  for (size_t peer = 0; peer < links.size(); ++peer)
    links[peer].begin(both[peer].first, both[peer].second);
  try {
    exchangeAll(wait);
    return SCALIFY_TRANSPORT_OK;
  } catch (const Fault &found) {
    for (Link &link : links)
      link.giveUp();
    return report(found, fault);
  }
}

/// Ends the connections after the peers have received the last notes: closing
/// with unread data would cut these off. A rank that does not read is not
/// waited for.
void TcpTransport::leave() {
  if (std::exchange(hasLeft, true))
    return;
  for (Link &link : links)
    link.giveUp();
  Clock::time_point start = Clock::now();
  std::vector<bool> hasEnded(links.size());
  for (bool isAlone = false;
       !isAlone && Clock::now() - start < std::chrono::seconds(1);) {
    progress();
    isAlone = true;
    for (size_t peer = 0; peer < links.size(); ++peer) {
      Link &link = links[peer];
      if (!hasEnded[peer] && (link.hasSent() || !link.lost.empty())) {
        link.end();
        hasEnded[peer] = true;
      }
      isAlone = isAlone && hasEnded[peer] && !link.lost.empty();
    }
    if (!isAlone)
      sleep(20);
  }
}

void TcpTransport::abort(const char *text) {
  // If another rank stopped first, pass on its reason.
  if (stopped < 0) {
    stopped = rank;
    reason = text;
  }
  if (!hasLeft)
    tell(Frame::Stopped, stopped, reason);
  leave();
}

void TcpTransport::close() {
  if (!hasLeft)
    tell(Frame::Closed, -1, "");
  leave();
}
} // namespace

scalify_transport tcp::open(const scalify_transport_options &options,
                            const Meeting &meeting) {
  return makeTransport(new TcpTransport(options, meeting), options);
}
