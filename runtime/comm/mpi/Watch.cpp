#include "comm/mpi/Watch.h"
#include "comm/Patience.h"
#include "comm/Secret.h"
#include "comm/mpi/Meeting.h"
#include "comm/tcp/Introduction.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::rt::mpi;

namespace {
/// The time for a new connection to identify itself, and for rank 0 to answer.
constexpr scalify_transport_wait greeting = {2, nullptr, nullptr};

/// Returns this machine's addresses, one per line. Addresses that other
/// machines may have too, such as the loopback's, come last.
std::string ownAddresses() {
  ifaddrs *first = nullptr;
  if (::getifaddrs(&first))
    return "127.0.0.1\n";
  std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> all(first, ::freeifaddrs);
  std::string outer, inner;
  for (ifaddrs *at = first; at; at = at->ifa_next) {
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    const void *address = nullptr;
    if (at->ifa_addr->sa_family == AF_INET) {
      address = &reinterpret_cast<sockaddr_in *>(at->ifa_addr)->sin_addr;
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      auto *found = reinterpret_cast<sockaddr_in6 *>(at->ifa_addr);
      // A link-local address means nothing on another machine.
      if (!IN6_IS_ADDR_LINKLOCAL(&found->sin6_addr))
        address = &found->sin6_addr;
    }
    if (!address ||
        !::inet_ntop(at->ifa_addr->sa_family, address, text, sizeof(text)))
      continue;
    bool isInner = at->ifa_flags & IFF_LOOPBACK;
    (isInner ? inner : outer) += std::string(text) + "\n";
  }
  return outer + inner;
}

/// Returns the address of the interface that SCALIFY_INTERFACE names, or "".
std::string ownInterface() {
  const char *name = std::getenv("SCALIFY_INTERFACE");
  return name && *name ? tcp::addressOfInterface(name) : "";
}

/// Blocks all signals in threads started while it lives, so that they take none
/// that the program waits for.
class NoSignals {
public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  NoSignals(const NoSignals &) = delete;
  NoSignals &operator=(const NoSignals &) = delete;

private:
  sigset_t before;
};
} // namespace

Watch::Word Watch::describeSelf(int32_t rank) const {
  Word word = {rank, int32_t(::getpid()), ""};
  ::gethostname(word.host, sizeof(word.host) - 1);
  return word;
}

Watch::Watch(int rank, int size, MPI_Comm comm) {
  Invitation invitation = {};
  if (rank == 0 && size > 1)
    invite(invitation);
  call(MPI_Bcast(&invitation, int(sizeof(invitation)), MPI_BYTE, 0, comm),
       "MPI_Bcast");
  if (!invitation.port)
    return;
  knowledge = {"mpi", invitation.secret};
  if (rank != 0) {
    join(invitation, rank, size);
    return;
  }
  callers = std::make_unique<tcp::Callers>(0, size, knowledge);
  NoSignals none;
  server = std::thread([this] { serve(); });
}

void Watch::invite(Invitation &invitation) {
  try {
    std::string host = ownInterface();
    listener = tcp::listenAt(host, 0, SOMAXCONN);
    stop = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!listener || !stop)
      failedCall("listen for ranks");
    // Without libcrypto no rank could prove itself.
    (void)tcp::prove(tcp::Side::Listener, {}, {}, {});
    std::snprintf(invitation.secret, sizeof(invitation.secret), "%s",
                  makeSecret().c_str());
    invitation.port = tcp::portOf(listener);
    bool isNamed = !host.empty() && host != "0.0.0.0" && host != "::";
    std::snprintf(invitation.addresses, sizeof(invitation.addresses), "%s",
                  (isNamed ? host + "\n" : ownAddresses()).c_str());
  } catch (const std::exception &error) {
    invitation.port = 0;
    std::fprintf(stderr,
                 "scalify: rank 0: %s; over MPI dead ranks are named only "
                 "after the timeout\n",
                 error.what());
  }
}

/// Introduces this rank to what listens at rank 0's address; returns false if
/// that is another machine of this address, or a stranger.
bool Watch::meet(int rank, int size, const Patience &patience) {
  tcp::Hello hello = {};
  hello.magic = tcp::greetingMagic;
  hello.job = tcp::hashJobName(knowledge.job);
  hello.rank = rank;
  hello.size = size;
  hello.process = int32_t(::getpid());
  Word word = describeSelf(rank);
  return tcp::introduce(toRankZero, hello, knowledge, patience) ==
             tcp::Answer::Accepted &&
         tcp::writeAll(toRankZero, &word, sizeof(word), patience) &&
         tcp::readAll(toRankZero, &first, sizeof(first), patience);
}

void Watch::join(const Invitation &invitation, int rank, int size) {
  std::istringstream addresses(invitation.addresses);
  tcp::Reason reason;
  std::string why;
  try {
    std::string from = ownInterface();
    if (from == "0.0.0.0" || from == "::")
      from.clear();
    for (std::string host; std::getline(addresses, host);) {
      tcp::Place place = {host, uint16_t(invitation.port)};
      Patience patience(greeting);
      toRankZero = tcp::connectTo(place, patience, reason, from);
      if (toRankZero && meet(rank, size, patience))
        return;
      why += " " + place.text();
    }
  } catch (const std::exception &error) {
    why += std::string(" ") + error.what();
  }
  toRankZero = File();
  std::fprintf(
      stderr,
      "scalify: rank %d cannot reach rank 0 at%s; over MPI it learns of "
      "dead ranks only after the timeout\n",
      rank, why.c_str());
}

void Watch::setDeadRank(const Word &word) {
  if (fallen >= 0)
    return;
  died = "process " + std::to_string(word.process) + " of " + word.host;
  fallen = word.rank;
}

/// Adds the connections that prove to be of ranks to the clients; strangers
/// hold nobody up.
void Watch::greet() {
  std::vector<pollfd> none;
  for (tcp::Callers::Caller &caller :
       callers->look(listener, none, Patience(greeting)))
    admit(std::move(caller));
}

void Watch::admit(tcp::Callers::Caller caller) {
  Patience patience(greeting);
  Word word = {}, answer = describeSelf(0);
  if (!tcp::readAll(caller.connection, &word, sizeof(word), patience) ||
      !tcp::writeAll(caller.connection, &answer, sizeof(answer), patience))
    return;
  word.host[sizeof(word.host) - 1] = '\0';
  clients.push_back({word, std::move(caller.connection)});
}

/// Returns false if the rank has left or died. Reports a death to the other
/// ranks.
bool Watch::hear(Client &client) {
  char byte = 0;
  ssize_t count = ::recv(client.connection.get(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  if (count > 0)
    return false;
  setDeadRank(client.word);
  for (Client &other : clients)
    if (&other != &client)
      (void)::send(other.connection.get(), &client.word, sizeof(client.word),
                   MSG_DONTWAIT | MSG_NOSIGNAL);
  return false;
}

void Watch::serve() {
  try {
    for (;;) {
      std::vector<pollfd> files = {{stop.get(), POLLIN, 0},
                                   {listener.get(), POLLIN, 0}};
      for (const Client &client : clients)
        files.push_back({client.connection.get(), POLLIN, 0});
      // Strangers are looked at in slices; otherwise the thread sleeps.
      if (::poll(files.data(), files.size(), callers->isWaiting() ? 0 : -1) <
              0 &&
          errno != EINTR)
        failedCall("watch ranks");
      if (files[0].revents)
        break;
      for (size_t i = clients.size(); i-- > 0;)
        if (files[i + 2].revents && !hear(clients[i]))
          clients.erase(clients.begin() + ptrdiff_t(i));
      if (files[1].revents || callers->isWaiting())
        greet();
    }
  } catch (const std::exception &error) {
    std::fprintf(stderr, "scalify: rank 0 no longer watches the others: %s\n",
                 error.what());
  }
  // Without this word the end of a connection would mean that rank 0 has died.
  Word leaves = describeSelf(-1);
  for (Client &client : clients)
    (void)::send(client.connection.get(), &leaves, sizeof(leaves),
                 MSG_DONTWAIT | MSG_NOSIGNAL);
  clients.clear();
}

int32_t Watch::dead() {
  Word word = {};
  if (!toRankZero || fallen >= 0)
    return fallen;
  // A word arrives in one packet. It is peeked at before it is taken.
  ssize_t count =
      ::recv(toRankZero.get(), &word, sizeof(word), MSG_DONTWAIT | MSG_PEEK);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return -1;
  if (count <= 0) {
    setDeadRank(first);
  } else if (size_t(count) == sizeof(word)) {
    if (word.rank >= 0)
      setDeadRank(word);
    else
      toRankZero = File();
  }
  return fallen;
}

Watch::~Watch() {
  if (server.joinable()) {
    uint64_t one = 1;
    if (::write(stop.get(), &one, sizeof(one)) != sizeof(one))
      std::terminate(); // the counter is never full
    server.join();
  }
  if (toRankZero)
    (void)::send(toRankZero.get(), "C", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
