#include "comm/tcp/Rendezvous.h"
#include "comm/Secret.h"
#include "comm/tcp/Callers.h"
#include "comm/tcp/Introduction.h"
#include "comm/tcp/Notice.h"
#include "support/Error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
const char filePrefix[] = "file:";
const char wayOut[] =
    "; name another HOST:PORT, or a file:PATH, in SCALIFY_RENDEZVOUS on all "
    "ranks";

std::string rankText(int32_t rank) { return "rank " + std::to_string(rank); }

/// Returns "rank 2, 3": the ranks after `rank` without a connection.
std::string listMissingAfter(int32_t rank, const std::vector<Peer> &peers) {
  std::string text;
  for (size_t next = size_t(rank) + 1; next < peers.size(); ++next)
    if (!peers[next].connection)
      text += (text.empty() ? "rank " : ", ") + std::to_string(next);
  return text;
}

void refuse(const File &connection, const std::string &text,
            const Patience &patience) {
  Reply reply;
  reply.isRefusal = 1;
  std::snprintf(reply.text, sizeof(reply.text), "%s", text.c_str());
  (void)writeAll(connection, &reply, sizeof(reply), patience);
}

std::string fileOf(const std::string &place) {
  return place.rfind(filePrefix, 0) == 0 ? place.substr(sizeof(filePrefix) - 1)
                                         : "";
}

/// True if the ranks meet at the loopback interface, which only this machine
/// reaches.
bool isLoopback(const Meeting &meeting) {
  if (!meeting.interface.empty() &&
      !isOwnMachine(addressOfInterface(meeting.interface)))
    return false;
  if (!fileOf(meeting.place).empty())
    return meeting.isOneMachine || !meeting.interface.empty();
  std::string host = readPlace(meeting.place, "where the ranks meet").host;
  return host == "localhost" || isOwnMachine(host);
}

void requireSecret(const Meeting &meeting) {
  // Rank 0 writes a secret to its file.
  if (meeting.secret.empty() && fileOf(meeting.place).empty() &&
      !isLoopback(meeting))
    badArgument("ranks that meet at " + meeting.place +
                ", over a network, need a secret, since anyone may connect "
                "there: " +
                secretWayOut);
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

class Host {
public:
  Host(const scalify_transport_options &options, const Meeting &meeting)
      : options(options), place(meeting.place), patience(options.wait),
        peers(size_t(options.size)), ports(size_t(options.size)) {
    Notice notice = {{listeningHost(meeting), 0}, ""};
    std::string secret = meeting.secret, path = fileOf(place);
    if (path.empty())
      notice.place.port = readPlace(place, "where the ranks meet").port;
    else if (secret.empty())
      secret = notice.secret = makeSecret();
    callers = std::make_unique<Callers>(0, options.size,
                                        Knowledge{options.job, secret});
    listen(notice.place);
    if (path.empty())
      return;
    notice.place.port = portOf(listener);
    file = std::make_unique<NoticeFile>(path, options.job, notice);
  }

  std::vector<Peer> gather() {
    try {
      while (joined + 1 < options.size)
        takeOne();
      // Before the ranks learn that all are there: a rank that joins another
      // communicator must not connect here.
      listener = File();
      file.reset();
      callers.reset();
      welcome();
      settle();
    } catch (const Error &error) {
      stop(std::string("rank 0 stopped: ") + error.what());
      throw;
    }
    return std::move(peers);
  }

private:
  void stop(const std::string &text) const {
    for (const Peer &peer : peers)
      if (peer.connection) {
        refuse(peer.connection, text, patience);
        (void)::shutdown(peer.connection.get(), SHUT_WR);
      }
    // Closing a connection with unread data from the peer would discard the
    // data sent to it, too.
    const Patience second(scalify_transport_wait{1, nullptr, nullptr});
    char rest = 0;
    for (const Peer &peer : peers)
      while (peer.connection && readAll(peer.connection, &rest, 1, second))
        continue;
  }

  /// Returns the address where rank 0 listens, "" for all of the machine's.
  static std::string listeningHost(const Meeting &meeting) {
    if (!meeting.interface.empty())
      return addressOfInterface(meeting.interface);
    if (isLoopback(meeting) && !fileOf(meeting.place).empty())
      return "127.0.0.1";
    if (!fileOf(meeting.place).empty())
      return "";
    std::string host = readPlace(meeting.place, "where the ranks meet").host;
    // A machine's own name is often that of its loopback interface, too.
    return host == "localhost" ? "127.0.0.1" : isAddress(host) ? host : "";
  }

  void listen(const Place &at) {
    // Another of the job's communicators may be opening.
    while (!(listener = listenAt(at.host, at.port, SOMAXCONN))) {
      if (patience.isOver())
        failed("rank 0 cannot listen at port " + std::to_string(at.port) +
               ", which another program has" + wayOut);
      patience.sleep();
    }
  }

  std::vector<pollfd> members() const {
    std::vector<pollfd> files;
    for (const Peer &peer : peers)
      files.push_back({peer.connection.get(), POLLIN, 0});
    return files;
  }

  [[noreturn]] void ended(size_t rank) const {
    failed("rank " + std::to_string(rank) + " ended while the ranks of job '" +
           options.job + "' joined");
  }

  void takeOne() {
    if (patience.isOver())
      failed(listMissingAfter(0, peers) + " has not joined job '" +
             options.job + "' at " + place + patience.text() +
             callers->refusals());
    std::vector<pollfd> files = members();
    std::vector<Callers::Caller> heard =
        callers->look(listener, files, patience);
    // Members send nothing after their hello: a readable connection has ended.
    for (size_t rank = 0; rank < peers.size(); ++rank)
      if (files[rank].revents)
        ended(rank);
    for (Callers::Caller &caller : heard)
      take(caller.hello, std::move(caller.connection));
  }

  /// `hello` is of a rank of the job.
  void take(const Hello &hello, File caller) {
    std::string text;
    if (hello.size != options.size)
      text = "a rank was started as one of " + std::to_string(hello.size) +
             ", rank 0 as one of " + std::to_string(options.size);
    else if (hello.rank < 1 || hello.rank >= options.size ||
             peers[size_t(hello.rank)].connection)
      text = "two processes are rank " + std::to_string(hello.rank) +
             " of job '" + options.job + "'";
    if (!text.empty()) {
      refuse(caller, text, patience);
      failed(text);
    }
    auto rank = size_t(hello.rank);
    peers[rank].host = addressOf(caller);
    peers[rank].process = hello.process;
    peers[rank].connection = std::move(caller);
    ports[rank] = uint16_t(hello.port);
    ++joined;
  }

  /// A rank that ended since is detected in settle().
  void welcome() const {
    std::vector<Entry> table(peers.size());
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      std::snprintf(table[rank].host, sizeof(table[rank].host), "%s",
                    peers[rank].host.c_str());
      table[rank].process = rank ? peers[rank].process : int32_t(::getpid());
      table[rank].port = ports[rank];
    }
    const Reply reply;
    for (const Peer &peer : peers)
      if (peer.connection &&
          writeAll(peer.connection, &reply, sizeof(reply), patience))
        (void)writeAll(peer.connection, table.data(),
                       table.size() * sizeof(Entry), patience);
  }

  /// Waits until each rank has connected to the others. Without this, a rank
  /// that ends before would be waited for by ranks that do not know it.
  void settle() {
    patience = Patience(options.wait);
    std::vector<bool> isReady(peers.size());
    for (int32_t left = options.size - 1; left > 0;) {
      // A rank knows better which rank it waits for, so it times out before
      // rank 0.
      if (patience.isOver(1.25))
        failed(unsettled(isReady) + " of job '" + options.job +
               "' has no connections to the others" + patience.text(1.25));
      std::vector<pollfd> files = members();
      patience.waitFor(files);
      for (size_t rank = 0; rank < peers.size(); ++rank)
        if (files[rank].revents) {
          if (isReady[rank])
            ended(rank);
          hearReady(rank);
          isReady[rank] = true;
          --left;
        }
    }
    const Reply go;
    for (const Peer &peer : peers)
      if (peer.connection)
        (void)writeAll(peer.connection, &go, sizeof(go), patience);
  }

  static std::string unsettled(const std::vector<bool> &isReady) {
    std::string text;
    for (size_t rank = 1; rank < isReady.size(); ++rank)
      if (!isReady[rank])
        text += (text.empty() ? "rank " : ", ") + std::to_string(rank);
    return text;
  }

  void hearReady(size_t rank) const {
    Reply reply;
    if (!readAll(peers[rank].connection, &reply, sizeof(reply), patience) ||
        reply.magic != greetingMagic)
      ended(rank);
    reply.text[sizeof(reply.text) - 1] = 0;
    if (reply.isRefusal)
      failed(reply.text);
  }

  const scalify_transport_options &options;
  const std::string &place;
  Patience patience;
  File listener;
  std::unique_ptr<NoticeFile> file;
  std::unique_ptr<Callers> callers;
  std::vector<Peer> peers; // by rank
  std::vector<uint16_t> ports;
  int32_t joined = 0;
};

//===----------------------------------------------------------------------===//
// Every other rank
//===----------------------------------------------------------------------===//

class Guest {
public:
  Guest(const scalify_transport_options &options, const Meeting &meeting)
      : options(options), meeting(meeting), patience(options.wait),
        knowledge{options.job, meeting.secret}, peers(size_t(options.size)) {
    if (!meeting.interface.empty())
      address = addressOfInterface(meeting.interface);
    own = {greetingMagic,
           hashJobName(options.job),
           options.rank,
           options.size,
           int32_t(::getpid()),
           0,
           0,
           {},
           {}};
  }

  std::vector<Peer> join() {
    File host = reachHost();
    callers = std::make_unique<Callers>(options.rank, options.size, knowledge);
    std::vector<Entry> table = readTable(host);
    std::string hostAddress = addressOf(host);
    peers[0] = {std::move(host), table[0].process, hostAddress};
    // The other ranks joined at any time; from here on all are running.
    patience = Patience(options.wait);
    try {
      reachOthers(table);
    } catch (const Error &error) {
      refuse(peers[0].connection, error.what(), patience);
      throw;
    }
    const Reply ready;
    if (!writeAll(peers[0].connection, &ready, sizeof(ready), patience))
      throwRankZeroEnded();
    // Rank 0 times out first, by its own clock.
    readReply(peers[0].connection);
    return std::move(peers);
  }

private:
  [[noreturn]] void throwUnreachable(const std::string &what,
                                     const std::string &reason) const {
    failed(rankText(options.rank) + " cannot reach " + what + patience.text() +
           ": " + reason);
  }

  /// Rank 0 may not listen yet, or refuse a connection for lack of room.
  File reachHost() {
    std::string path = fileOf(meeting.place);
    Notice notice;
    if (path.empty())
      notice.place = readPlace(meeting.place, "where the ranks meet");
    for (Reason reason;;) {
      if (path.empty() || readNotice(path, options.job, options.rank, notice)) {
        if (meeting.secret.empty())
          knowledge.secret = notice.secret;
        File file = connectTo(notice.place, patience, reason, address);
        if (file && knock(file))
          return file;
        if (file)
          reason.text = "it closes the connection before a greeting";
      } else {
        reason.text = "the file does not exist";
      }
      if (patience.isOver())
        throwUnreachable(path.empty() ? "rank 0 at " + notice.place.text()
                                      : "rank 0 by the file '" + path + "'",
                         reason.text + wayOut);
      patience.sleep();
    }
  }

  /// Introduces this rank to rank 0, which may have started later, and times
  /// out by its own clock; returns false if it closed the connection.
  bool knock(const File &host) {
    listen(host);
    switch (introduce(host, own, knowledge, patience)) {
    case Answer::Accepted:
      return true;
    case Answer::Ended:
      return false;
    case Answer::Silent:
    case Answer::Foreign:
      failed("the peer of " + rankText(options.rank) + " of job '" +
             options.job + "' at " + meeting.place + " is not rank 0" + wayOut);
    case Answer::OtherJob:
      failed("rank 0 at " + meeting.place + " is of another job than '" +
             options.job + "' of " + rankText(options.rank) + wayOut);
    case Answer::OtherSecret:
      failed("rank 0 at " + meeting.place + " and " + rankText(options.rank) +
             " of job '" + options.job +
             "' have other secrets: " + secretWayOut);
    }
    return false;
  }

  /// Listens for higher ranks at the address by which it reaches rank 0.
  void listen(const File &host) {
    if (listener)
      return;
    std::string at = address.empty() ? ownAddressOf(host) : address;
    // Others reach a rank beside rank 0 by another address.
    if (isOwnMachine(at) && !isLoopback(meeting))
      at.clear();
    listener = listenAt(at, 0, SOMAXCONN);
    if (!listener)
      failed(rankText(options.rank) + " finds no free port to listen at");
    own.port = portOf(listener);
  }

  std::vector<Entry> readTable(const File &host) const {
    std::vector<Entry> table(static_cast<size_t>(options.size));
    readReply(host);
    if (!readAll(host, table.data(), table.size() * sizeof(Entry), patience, 2))
      throwRankZeroEnded();
    for (Entry &entry : table)
      entry.host[sizeof(entry.host) - 1] = 0;
    return table;
  }

  /// Throws an Error with the reply's text if it is a refusal.
  void readReply(const File &host) const {
    Reply reply;
    if (!readAll(host, &reply, sizeof(reply), patience, 2) ||
        reply.magic != greetingMagic)
      throwRankZeroEnded();
    reply.text[sizeof(reply.text) - 1] = 0;
    if (reply.isRefusal)
      failed(reply.text);
  }

  [[noreturn]] void throwRankZeroEnded() const {
    failed("rank 0 ended while " + rankText(options.rank) + " of job '" +
           options.job + "' joined");
  }

  void reachOthers(const std::vector<Entry> &table) {
    for (int32_t rank = 1; rank < options.size; ++rank) {
      const Entry &entry = table[size_t(rank)];
      // Rank 0 sees ranks of its own machine by another address than others do.
      peers[size_t(rank)].host =
          isOwnMachine(entry.host) ? peers[0].host : entry.host;
      peers[size_t(rank)].process = entry.process;
      if (rank < options.rank)
        reach(rank, entry.port);
    }
    // These ranks have connected already, or will.
    while (!listMissingAfter(options.rank, peers).empty())
      takeSome();
  }

  void reach(int32_t rank, uint16_t port) {
    Peer &peer = peers[size_t(rank)];
    Place place = {peer.host, port};
    own.to = rank;
    for (Reason reason;;) {
      checkHost();
      peer.connection = connectTo(place, patience, reason, address);
      if (peer.connection && greet(peer.connection, rank, place))
        return;
      // The rank has listened since before rank 0 heard of it.
      if (reason.code == ECONNREFUSED)
        failed(rankText(options.rank) + " cannot reach " + rankText(rank) +
               " at " + place.text() + ": " + reason.text +
               "; it has ended, or its machine does not let others connect");
      if (patience.isOver())
        throwUnreachable(rankText(rank) + " at " + place.text(), reason.text);
      patience.sleep();
    }
  }

  /// Returns false if the rank closed the connection.
  bool greet(const File &connection, int32_t rank, const Place &place) {
    Answer answer = introduce(connection, own, knowledge, patience,
                              [this] { checkHost(); });
    if (answer != Answer::Accepted && answer != Answer::Ended)
      failed(rankText(options.rank) + " finds no " + rankText(rank) +
             " of job '" + options.job + "' at " + place.text());
    return answer == Answer::Accepted;
  }

  /// Before all ranks have connected, rank 0 sends only a refusal.
  void checkHost() const {
    pollfd host = {peers[0].connection.get(), POLLIN, 0};
    if (::poll(&host, 1, 0) > 0)
      throwHostRefusal();
  }

  /// Before all ranks have connected, rank 0 sends only a refusal, with its
  /// reason.
  [[noreturn]] void throwHostRefusal() const {
    readReply(peers[0].connection);
    throwRankZeroEnded();
  }

  void takeSome() {
    if (patience.isOver())
      failed(listMissingAfter(options.rank, peers) + " of job '" + options.job +
             "' has not connected to " + rankText(options.rank) +
             patience.text() + callers->refusals());
    std::vector<pollfd> host = {{peers[0].connection.get(), POLLIN, 0}};
    std::vector<Callers::Caller> heard =
        callers->look(listener, host, patience);
    if (host[0].revents)
      throwHostRefusal();
    for (Callers::Caller &caller : heard) {
      const Hello &hello = caller.hello;
      if (hello.rank > options.rank && hello.rank < options.size &&
          !peers[size_t(hello.rank)].connection)
        peers[size_t(hello.rank)].connection = std::move(caller.connection);
    }
  }

  const scalify_transport_options &options;
  const Meeting &meeting;
  Patience patience;
  Knowledge knowledge;
  std::string address; // of the interface that was named, or ""
  File listener;
  std::unique_ptr<Callers> callers;
  Hello own = {};
  std::vector<Peer> peers;
};
} // namespace

std::vector<Peer> tcp::join(const scalify_transport_options &options,
                            const Meeting &meeting) {
  if (options.size == 1)
    return std::vector<Peer>(1);
  requireSecret(meeting);
  std::vector<Peer> peers = options.rank == 0 ? Host(options, meeting).gather()
                                              : Guest(options, meeting).join();
  for (const Peer &peer : peers) {
    int yes = 1;
    if (!peer.connection)
      continue;
    for (auto [level, option] : {std::pair<int, int>(IPPROTO_TCP, TCP_NODELAY),
                                 {SOL_SOCKET, SO_KEEPALIVE}})
      (void)::setsockopt(peer.connection.get(), level, option, &yes,
                         sizeof(yes));
  }
  return peers;
}
