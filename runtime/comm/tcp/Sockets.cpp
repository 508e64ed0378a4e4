#include "comm/tcp/Sockets.h"
#include "support/Error.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

std::string Place::text() const {
  bool isNumber6 = host.find(':') != std::string::npos;
  return (isNumber6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Place tcp::readPlace(const std::string &text, const std::string &what) {
  size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon), port;
  if (colon != std::string::npos)
    port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  char *end = nullptr;
  long number = std::strtol(port.c_str(), &end, 10);
  if (host.empty() || port.empty() || *end || number < 1 || number > 65535)
    badArgument(what + " is '" + text + "', not HOST:PORT");
  return {host, uint16_t(number)};
}

namespace {
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo *)>;

Addresses resolve(const char *host, uint16_t port, Reason &reason) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE);
  addrinfo *found = nullptr;
  int code = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code == EAI_SYSTEM && isOutOfFiles(errno))
    failedCall("look up a rank's machine");
  if (code)
    reason.text = ::gai_strerror(code);
  return {code ? nullptr : found,
          [](addrinfo *list) { list ? ::freeaddrinfo(list) : void(); }};
}

/// Keeps the more informative reason. A machine may have addresses it cannot
/// use, such as of IPv6: their errors say less than those of another address.
void note(Reason &reason, int code) {
  bool saysLittle =
      code == ENETUNREACH || code == EADDRNOTAVAIL || code == EAFNOSUPPORT;
  if (!reason.text.empty() && saysLittle)
    return;
  reason = {code, std::strerror(code)};
}

File makeSocket(const addrinfo &address, Reason &reason) {
  File file(::socket(address.ai_family,
                     SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!file && isOutOfFiles(errno))
    failedCall("make a socket for ranks");
  if (!file)
    note(reason, errno);
  return file;
}

/// Returns the address as text, "" if it is none.
std::string numberOf(const sockaddr *address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  if (::getnameinfo(address, length, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST))
    return "";
  // IPv4 through a socket of IPv6.
  std::string found = text;
  return found.rfind("::ffff:", 0) == 0 ? found.substr(7) : found;
}

/// Binds a new connection's own end to an address; returns false on failure.
bool bindFrom(const File &file, const std::string &from, int family) {
  Reason reason;
  Addresses all = resolve(from.c_str(), 0, reason);
  for (addrinfo *at = all.get(); at; at = at->ai_next)
    if (at->ai_family == family)
      return ::bind(file.get(), at->ai_addr, at->ai_addrlen) == 0;
  errno = EAFNOSUPPORT;
  return false;
}

void set(const File &file, int level, int option, int value) {
  (void)::setsockopt(file.get(), level, option, &value, sizeof(value));
}

/// Returns 0 if a pending connection is established within about two seconds,
/// else an errno.
int waitConnected(const File &file, const Patience &patience) {
  std::vector<pollfd> files = {{file.get(), POLLOUT, 0}};
  for (int slice = 0; slice < 40 && !files[0].revents; ++slice)
    patience.waitFor(files);
  int error = ETIMEDOUT;
  socklen_t length = sizeof(error);
  if (files[0].revents)
    (void)::getsockopt(file.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}
} // namespace

File tcp::listenAt(const std::string &host, uint16_t port, int backlog) {
  Reason reason;
  Addresses all = resolve(host.empty() ? nullptr : host.c_str(), port, reason);
  // One socket of IPv6 serves both families, if the machine has IPv6.
  for (int family : {AF_INET6, AF_INET})
    for (addrinfo *at = all.get(); at; at = at->ai_next) {
      File file = at->ai_family == family ? makeSocket(*at, reason) : File();
      if (!file)
        continue;
      set(file, SOL_SOCKET, SO_REUSEADDR, 1);
      if (family == AF_INET6)
        set(file, IPPROTO_IPV6, IPV6_V6ONLY, 0);
      if (::bind(file.get(), at->ai_addr, at->ai_addrlen)) {
        if (errno == EADDRINUSE)
          return File();
        note(reason, errno);
        continue;
      }
      if (::listen(file.get(), backlog) == 0)
        return file;
      if (errno == EADDRINUSE)
        return File();
      note(reason, errno);
    }
  failed("cannot listen for ranks" + (host.empty() ? "" : " at " + host) +
         ": " + reason.text +
         (host.empty() ? ""
                       : "; name an interface or address of this machine in "
                         "SCALIFY_INTERFACE, or 0.0.0.0 for all"));
}

bool tcp::isAddress(const std::string &host) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  bool isNumeric = ::getaddrinfo(host.c_str(), nullptr, &hints, &found) == 0;
  if (isNumeric)
    ::freeaddrinfo(found);
  return isNumeric;
}

std::string tcp::addressOfInterface(const std::string &text) {
  if (isAddress(text))
    return text;
  ifaddrs *first = nullptr;
  if (::getifaddrs(&first))
    failedCall("list the network's interfaces");
  std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> all(first, ::freeifaddrs);
  std::set<std::string> names;
  for (int family : {AF_INET, AF_INET6})
    for (ifaddrs *at = first; at; at = at->ifa_next) {
      names.insert(at->ifa_name);
      if (text != at->ifa_name || !at->ifa_addr ||
          at->ifa_addr->sa_family != family)
        continue;
      std::string address =
          numberOf(at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in)
                                                   : sizeof(sockaddr_in6));
      // A link-local address means nothing on another machine.
      if (address.find('%') == std::string::npos)
        return address;
    }
  std::string known;
  for (const std::string &name : names)
    known += (known.empty() ? "" : ", ") + name;
  badArgument("SCALIFY_INTERFACE is '" + text +
              "', neither an address nor an interface of this machine that "
              "has one (" +
              known + ")");
}

File tcp::acceptAt(const File &listener) {
  File file(::accept4(listener.get(), nullptr, nullptr,
                      SOCK_CLOEXEC | SOCK_NONBLOCK));
  // The peer may have disconnected again.
  if (!file && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
    failedCall("take a rank's connection");
  return file;
}

uint16_t tcp::portOf(const File &listener) {
  sockaddr_storage own = {};
  socklen_t length = sizeof(own);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&own),
                    &length))
    failedCall("ask for a socket's port");
  // The port has the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in *>(&own)->sin_port);
}

bool tcp::closeSelfConnection(File &connection) {
  sockaddr_storage own = {}, other = {};
  socklen_t ownLength = sizeof(own), otherLength = sizeof(other);
  if (::getsockname(connection.get(), reinterpret_cast<sockaddr *>(&own),
                    &ownLength) ||
      ::getpeername(connection.get(), reinterpret_cast<sockaddr *>(&other),
                    &otherLength) ||
      ownLength != otherLength || std::memcmp(&own, &other, ownLength) != 0)
    return false;
  // A normal close would keep the port from rank 0 for a minute.
  linger now = {1, 0};
  (void)::setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &now,
                     sizeof(now));
  connection = File();
  return true;
}

File tcp::connectTo(const Place &place, const Patience &patience,
                    Reason &reason, const std::string &from) {
  reason = {};
  Addresses all = resolve(place.host.c_str(), place.port, reason);
  for (addrinfo *at = all.get(); at; at = at->ai_next) {
    File file = makeSocket(*at, reason);
    if (!file)
      continue;
    if (!from.empty() && !bindFrom(file, from, at->ai_family)) {
      note(reason, errno);
      continue;
    }
    int error = ::connect(file.get(), at->ai_addr, at->ai_addrlen) ? errno : 0;
    if (error == 0 || error == EINPROGRESS)
      error = waitConnected(file, patience);
    if (error == 0 && !closeSelfConnection(file))
      return file;
    note(reason, error ? error : ECONNREFUSED);
  }
  return File();
}

static std::string endOf(const File &connection,
                         decltype(::getpeername) *getName) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(storage);
  auto *address = reinterpret_cast<sockaddr *>(&storage);
  return getName(connection.get(), address, &length)
             ? ""
             : numberOf(address, length);
}

std::string tcp::addressOf(const File &connection) {
  return endOf(connection, &::getpeername);
}

std::string tcp::ownAddressOf(const File &connection) {
  return endOf(connection, &::getsockname);
}

bool tcp::isOwnMachine(const std::string &address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

bool tcp::readAll(const File &connection, void *data, size_t bytes,
                  const Patience &patience, double times,
                  const std::function<void()> &idle) {
  auto *to = static_cast<uint8_t *>(data);
  while (bytes) {
    ssize_t count = ::recv(connection.get(), to, bytes, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (count > 0) {
      to += count;
      bytes -= size_t(count);
      continue;
    }
    if (patience.isOver(times))
      return false;
    if (idle)
      idle();
    std::vector<pollfd> files = {{connection.get(), POLLIN, 0}};
    patience.waitFor(files);
  }
  return true;
}

bool tcp::writeAll(const File &connection, const void *data, size_t bytes,
                   const Patience &patience) {
  const auto *from = static_cast<const uint8_t *>(data);
  while (bytes) {
    ssize_t count =
        ::send(connection.get(), from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    if (count > 0) {
      from += count;
      bytes -= size_t(count);
      continue;
    }
    if (patience.isOver(2))
      return false;
    std::vector<pollfd> files = {{connection.get(), POLLOUT, 0}};
    patience.waitFor(files);
  }
  return true;
}
