#include "comm/tcp/Rendezvous.h"
#include "comm/tcp/Greeting.h"
#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sstream>
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

/// Connections to a listener without a hello yet. A silent one blocks nobody.
class Callers {
public:
  struct Caller {
    Hello hello;
    File connection;
  };

  /// Polls for up to 50 ms, `others` too, and returns the callers with a hello.
  std::vector<Caller> look(const File &listener, std::vector<pollfd> &others,
                           const Patience &patience) {
    std::vector<pollfd> files = others;
    files.push_back({listener.get(), POLLIN, 0});
    for (const File &caller : waiting)
      files.push_back({caller.get(), POLLIN, 0});
    patience.waitFor(files);
    std::copy_n(files.begin(), others.size(), others.begin());
    const pollfd *own = &files[others.size()];
    std::vector<Caller> heard;
    for (size_t i = waiting.size(); i-- > 0;)
      if (own[1 + i].revents) {
        Caller caller = {{}, std::move(waiting[i])};
        waiting.erase(waiting.begin() + int64_t(i));
        if (hear(caller))
          heard.push_back(std::move(caller));
      }
    if (own->revents)
      if (File caller = acceptAt(listener); caller)
        waiting.push_back(std::move(caller));
    return heard;
  }

private:
  /// A hello comes in one piece: whoever sends less is no rank.
  static bool hear(Caller &caller) {
    Hello &hello = caller.hello;
    return ::recv(caller.connection.get(), &hello, sizeof(hello), 0) ==
               sizeof(hello) &&
           hello.magic == greetingMagic;
  }

  std::vector<File> waiting;
};

//===----------------------------------------------------------------------===//
// The file with rank 0's address
//===----------------------------------------------------------------------===//

std::string fileOf(const std::string &meeting) {
  return meeting.rfind(filePrefix, 0) == 0
             ? meeting.substr(sizeof(filePrefix) - 1)
             : "";
}

/// Rank 0's file. It exists while the ranks join, and is removed however that
/// ends, except by a kill.
class Notice {
public:
  Notice(std::string name, const std::string &job, uint16_t port)
      : path(std::move(name)) {
    char host[256] = "";
    if (::gethostname(host, sizeof(host) - 1))
      failedCall("ask for this machine's name");
    std::string text = "scalify " + std::to_string(port) + " " + host + " " +
                       std::to_string(hashJobName(job)) + "\n";
    // Created by a link, so that it is complete at once and overwrites no file.
    std::string draft = path + "." + host + "." + std::to_string(::getpid());
    write(draft, text);
    int code = ::link(draft.c_str(), path.c_str());
    int reason = errno;
    (void)::unlink(draft.c_str());
    if (code && reason == EEXIST)
      failed("rank 0 finds the file '" + path +
             "', which another launch has left or uses: remove it, or name "
             "another one in SCALIFY_RENDEZVOUS");
    errno = reason;
    if (code)
      failedCall("write the file '" + path + "' with rank 0's address");
  }
  ~Notice() { (void)::unlink(path.c_str()); }
  Notice(const Notice &) = delete;
  Notice &operator=(const Notice &) = delete;

private:
  static void write(const std::string &name, const std::string &text) {
    std::FILE *file = std::fopen(name.c_str(), "wx");
    bool isWritten = file && std::fputs(text.c_str(), file) >= 0;
    if (!file || std::fclose(file) || !isWritten)
      failedCall("write the file '" + name + "'");
  }
  std::string path;
};

/// Reads the file into `place`; returns false if the file does not exist yet.
/// Throws an Error for another job's file, which an earlier launch left.
bool readNotice(const std::string &path, const std::string &job, int32_t rank,
                Place &place) {
  std::FILE *file = std::fopen(path.c_str(), "r");
  if (!file && errno == ENOENT)
    return false;
  if (!file)
    failedCall("read the file '" + path + "' with rank 0's address");
  char text[512] = "";
  size_t count = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  std::istringstream words(std::string(text, count));
  std::string first;
  uint64_t hash = 0;
  words >> first >> place.port >> place.host >> hash;
  if (!words || first != "scalify")
    failed(rankText(rank) + " finds the file '" + path +
           "', which rank 0 did not write: name another one in "
           "SCALIFY_RENDEZVOUS");
  if (hash != hashJobName(job))
    failed(rankText(rank) + " finds the file '" + path +
           "' of another job than '" + job +
           "': remove it if an earlier launch has left it, or name another "
           "one in SCALIFY_RENDEZVOUS");
  return true;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

class Host {
public:
  Host(const scalify_transport_options &options, const std::string &meeting)
      : options(options), meeting(meeting), patience(options.wait),
        peers(size_t(options.size)), ports(size_t(options.size)) {}

  std::vector<Peer> gather() {
    listen();
    std::string path = fileOf(meeting);
    std::unique_ptr<Notice> notice;
    if (!path.empty())
      notice = std::make_unique<Notice>(path, options.job, portOf(listener));
    try {
      while (joined + 1 < options.size)
        takeOne();
      // Before the ranks learn that all are there: a rank that joins another
      // communicator must not connect here.
      listener = File();
      notice.reset();
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

  void listen() {
    Place place;
    if (fileOf(meeting).empty())
      place = readPlace(meeting, "where the ranks meet");
    // Another of the job's communicators may be opening.
    while (!(listener = listenAt(place.port, options.size))) {
      if (patience.isOver())
        failed("rank 0 cannot listen at port " + std::to_string(place.port) +
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
             options.job + "' at " + meeting + patience.text());
    std::vector<pollfd> files = members();
    std::vector<Callers::Caller> heard =
        callers.look(listener, files, patience);
    // Members send nothing after their hello: a readable connection has ended.
    for (size_t rank = 0; rank < peers.size(); ++rank)
      if (files[rank].revents)
        ended(rank);
    for (Callers::Caller &caller : heard)
      take(caller.hello, std::move(caller.connection));
  }

  void take(const Hello &hello, File caller) {
    // A rank of another job is refused, and this job continues.
    if (hello.job != hashJobName(options.job))
      return refuse(caller,
                    "rank 0 at " + meeting + " is of another job ('" +
                        options.job + "')" + wayOut,
                    patience);
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
    ports[rank] = hello.port;
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
  const std::string &meeting;
  Patience patience;
  File listener;
  Callers callers;
  std::vector<Peer> peers; // by rank
  std::vector<uint16_t> ports;
  int32_t joined = 0;
};

//===----------------------------------------------------------------------===//
// Every other rank
//===----------------------------------------------------------------------===//

class Guest {
public:
  Guest(const scalify_transport_options &options, const std::string &meeting)
      : options(options), meeting(meeting), patience(options.wait),
        listener(listenAt(0, options.size)), peers(size_t(options.size)) {
    own = {greetingMagic, hashJobName(options.job), options.rank,
           options.size,  int32_t(::getpid()),      portOf(listener)};
  }

  std::vector<Peer> join() {
    File host = reachHost();
    std::vector<Entry> table = knock(host);
    std::string address = addressOf(host);
    peers[0] = {std::move(host), table[0].process, address};
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

  File reachHost() {
    std::string path = fileOf(meeting);
    Place place;
    if (path.empty())
      place = readPlace(meeting, "where the ranks meet");
    for (Reason reason;;) {
      if (path.empty() || readNotice(path, options.job, options.rank, place)) {
        if (File file = connectTo(place, patience, reason); file)
          return file;
      } else {
        reason.text = "the file does not exist";
      }
      if (patience.isOver())
        throwUnreachable(path.empty() ? "rank 0 at " + place.text()
                                      : "rank 0 by the file '" + path + "'",
                         reason.text + wayOut);
      patience.sleep();
    }
  }

  /// Rank 0 may have started later, and times out by its own clock. It replies
  /// then, unless it was stopped.
  std::vector<Entry> knock(const File &host) const {
    std::vector<Entry> table(static_cast<size_t>(options.size));
    if (!writeAll(host, &own, sizeof(own), patience))
      throwRankZeroEnded();
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
    // Another service may send less than a whole reply and wait.
    constexpr size_t first = sizeof(reply.magic);
    if (!readAll(host, &reply, first, patience, 2))
      throwRankZeroEnded();
    if (reply.magic != greetingMagic)
      failed("the peer of " + rankText(options.rank) + " of job '" +
             options.job + "' at " + meeting + " is not rank 0" + wayOut);
    if (!readAll(host, reinterpret_cast<char *>(&reply) + first,
                 sizeof(reply) - first, patience, 2))
      throwRankZeroEnded();
    reply.text[sizeof(reply.text) - 1] = 0;
    if (reply.isRefusal)
      failed(reply.text);
  }

  [[noreturn]] void throwRankZeroEnded() const {
    failed("rank 0 ended while " + rankText(options.rank) + " of job '" +
           options.job + "' joined, or the peer at " + meeting +
           " is not rank 0" + wayOut);
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
    for (Reason reason;
         !(peer.connection = connectTo(place, patience, reason));) {
      std::vector<pollfd> files = {{peers[0].connection.get(), POLLIN, 0}};
      if (::poll(files.data(), 1, 0) > 0)
        throwHostRefusal();
      // The rank has listened since before rank 0 heard of it.
      if (reason.code == ECONNREFUSED)
        failed(rankText(options.rank) + " cannot reach " + rankText(rank) +
               " at " + place.text() + ": " + reason.text +
               "; it has ended, or its machine does not let others connect");
      if (patience.isOver())
        throwUnreachable(rankText(rank) + " at " + place.text(), reason.text);
      patience.sleep();
    }
    if (!writeAll(peer.connection, &own, sizeof(own), patience))
      failed(rankText(rank) + " ended while ranks joined");
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
             patience.text());
    std::vector<pollfd> host = {{peers[0].connection.get(), POLLIN, 0}};
    std::vector<Callers::Caller> heard = callers.look(listener, host, patience);
    if (host[0].revents)
      throwHostRefusal();
    for (Callers::Caller &caller : heard) {
      const Hello &hello = caller.hello;
      if (hello.job == own.job && hello.rank > options.rank &&
          hello.rank < options.size && !peers[size_t(hello.rank)].connection)
        peers[size_t(hello.rank)].connection = std::move(caller.connection);
    }
  }

  const scalify_transport_options &options;
  const std::string &meeting;
  Patience patience;
  File listener;
  Callers callers;
  Hello own = {};
  std::vector<Peer> peers;
};
} // namespace

std::vector<Peer> tcp::join(const scalify_transport_options &options,
                            const std::string &meeting) {
  if (options.size == 1)
    return std::vector<Peer>(1);
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
