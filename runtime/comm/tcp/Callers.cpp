#include "comm/tcp/Callers.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <sys/socket.h>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

std::vector<Callers::Caller> Callers::look(const File &listener,
                                           std::vector<pollfd> &others,
                                           const Patience &patience) {
  std::vector<pollfd> files = others;
  files.push_back({listener.get(), POLLIN, 0});
  for (const Stranger &stranger : strangers)
    files.push_back({stranger.connection.get(), POLLIN, 0});
  patience.waitFor(files);
  std::copy_n(files.begin(), others.size(), others.begin());
  const pollfd *own = &files[others.size()];
  std::vector<Caller> ranks;
  std::vector<Stranger> rest;
  for (size_t i = 0; i < strangers.size(); ++i) {
    Stranger &stranger = strangers[i];
    State state = own[1 + i].revents ? hear(stranger) : State::Waits;
    if (state == State::Proved) {
      ranks.push_back({stranger.hello, std::move(stranger.connection)});
    } else if (state == State::Waits) {
      if (Clock::now() - stranger.since < seconds)
        rest.push_back(std::move(stranger));
      else
        log(stranger.address, "it sent no greeting in time");
    }
  }
  strangers = std::move(rest);
  if (own->revents)
    accept(listener);
  return ranks;
}

/// Takes as many as there may be, so that the system's queue does not fill up.
void Callers::accept(const File &listener) {
  for (size_t count = 0; count < capacity; ++count) {
    if (strangers.size() == capacity && !makeRoom())
      return;
    Stranger stranger = {acceptAt(listener), "", Clock::now()};
    if (!stranger.connection)
      return;
    stranger.address = addressOf(stranger.connection);
    stranger.nonce = makeNonce();
    Challenge challenge;
    challenge.nonce = stranger.nonce;
    // A new connection has room for it.
    if (::send(stranger.connection.get(), &challenge, sizeof(challenge),
               MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(challenge))
      strangers.push_back(std::move(stranger));
    else
      log(stranger.address, "it has closed the connection");
  }
}

/// Returns false if whom it would drop has just come: a rank needs some time.
bool Callers::makeRoom() {
  std::map<std::string, size_t> counts;
  for (const Stranger &stranger : strangers)
    ++counts[stranger.address];
  auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  auto oldest = std::find_if(
      strangers.begin(), strangers.end(),
      [&](const Stranger &one) { return one.address == most->first; });
  if (Clock::now() - oldest->since < std::chrono::milliseconds(5))
    return false;
  log(oldest->address, "it has not greeted, and others wait");
  strangers.erase(oldest);
  return true;
}

Callers::State Callers::hear(Stranger &stranger) {
  Hello &hello = stranger.hello;
  ssize_t count = ::recv(stranger.connection.get(),
                         reinterpret_cast<char *>(&hello) + stranger.done,
                         sizeof(hello) - stranger.done, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return State::Waits;
  if (count <= 0) {
    log(stranger.address, "it has closed the connection");
    return State::Dropped;
  }
  stranger.done += size_t(count);
  if (stranger.done >= sizeof(hello.magic) && hello.magic != greetingMagic) {
    log(stranger.address, "it sent no greeting of a rank");
    return State::Dropped;
  }
  return stranger.done == sizeof(hello) ? judge(stranger) : State::Waits;
}

Callers::State Callers::judge(Stranger &stranger) {
  const Hello &hello = stranger.hello;
  Verdict verdict;
  std::string why;
  if (hello.job != hashJobName(knowledge.job)) {
    verdict.code = Verdict::OtherJob;
    why = "it is of another job";
  } else if (hello.to != rank ||
             !isSame(hello.proof,
                     prove(Side::Caller, knowledge, stranger.nonce, hello))) {
    verdict.code = Verdict::OtherSecret;
    why = "it does not prove that it knows the job's secret";
  } else {
    verdict.proof = prove(Side::Listener, knowledge, stranger.nonce, hello);
  }
  if (!why.empty())
    log(stranger.address, why);
  bool isSent = ::send(stranger.connection.get(), &verdict, sizeof(verdict),
                       MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(sizeof(verdict));
  return why.empty() && isSent ? State::Proved : State::Dropped;
}

/// Logs the first ones, then ever fewer: a flood does not fill the log.
void Callers::log(const std::string &address, const std::string &why) {
  ++numRefused;
  lastRefused = address + ": " + why;
  bool isPower = (numRefused & (numRefused - 1)) == 0;
  if (numRefused > 8 && !isPower)
    return;
  std::fprintf(stderr, "scalify: rank %d refuses a connection from %s (%zu)\n",
               rank, lastRefused.c_str(), numRefused);
}

std::string Callers::refusals() const {
  if (!numRefused)
    return "";
  return "; " + std::to_string(numRefused) +
         " connections were refused, the last from " + lastRefused;
}
