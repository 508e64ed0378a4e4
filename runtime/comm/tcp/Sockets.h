// What the ranks of transport `tcp` need of sockets.
#ifndef SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H
#define SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H

#include "comm/Patience.h"
#include "support/File.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace scalify::rt::tcp {

/// A host's name or number, and a port.
struct Place {
  std::string host;
  uint16_t port = 0;
  std::string text() const;
};

/// "HOST:PORT" or "[HOST]:PORT"; throws Error, with `what` it is, for others.
Place readPlace(const std::string &text, const std::string &what);

/// A socket that others connect to, on all of the machine's addresses; port 0
/// lets the system choose. Without a file where the port is taken.
File listenAt(uint16_t port, int backlog);
uint16_t portOf(const File &listener);

/// Who has connected, or no file where nobody has; throws Error where that
/// cannot be, as without files left.
File acceptAt(const File &listener);

/// Why nobody answers: an errno, 0 where the name is not found.
struct Reason {
  int code = 0;
  std::string text;
};

/// Without a file where nobody answers; `reason` is why then. Throws Error
/// where no other attempt helps.
File connectTo(const Place &place, const Patience &patience, Reason &reason);

/// Closes a connection whose ends are one socket, and returns whether it was:
/// who connects to a port of the system's choice at which nobody listens may
/// be given that very port as its own, and reach itself.
bool refuseItself(File &connection);

/// Where the other end is, in numbers.
std::string addressOf(const File &connection);
bool isOwnMachine(const std::string &address);

/// Reads or writes all of it, while ranks join; false where the other end went.
bool readAll(const File &connection, void *data, size_t bytes,
             const Patience &patience, double times = 1);
bool writeAll(const File &connection, const void *data, size_t bytes,
              const Patience &patience);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H
