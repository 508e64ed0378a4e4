// Socket helpers of transport `tcp`.
#ifndef SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H
#define SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H

#include "comm/Patience.h"
#include "support/File.h"

#include <cstdint>
#include <functional>
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

/// Parses "HOST:PORT" or "[HOST]:PORT". Throws an Error that names `what` for
/// other texts.
Place readPlace(const std::string &text, const std::string &what);

/// Returns a socket that listens at the address `host` of this machine, "" for
/// all; port 0 lets the system choose. Returns no file if the port is taken.
File listenAt(const std::string &host, uint16_t port, int backlog);
uint16_t portOf(const File &listener);

/// Returns the address of a network interface of this machine ("eth0"). A text
/// that is an address already is returned unchanged; throws an Error for other
/// ones.
std::string addressOfInterface(const std::string &text);
bool isAddress(const std::string &host);

/// Accepts a connection, or returns no file if none is waiting. Throws an Error
/// if accepting cannot succeed, for example without file descriptors.
File acceptAt(const File &listener);

/// Why a connection failed: an errno, 0 if the name was not found.
struct Reason {
  int code = 0;
  std::string text;
};

/// Connects to `place`, from the address `from` unless that is "". Returns no
/// file and sets `reason` if nobody answers. Throws an Error if a retry cannot
/// help.
File connectTo(const Place &place, const Patience &patience, Reason &reason,
               const std::string &from = "");

/// Closes a connection whose two ends are one socket, and returns true if it
/// was: a client of an ephemeral port at which nobody listens may be given that
/// port as its own, and connect to itself.
bool closeSelfConnection(File &connection);

/// Returns the numeric address of the peer, or of this end.
std::string addressOf(const File &connection);
std::string ownAddressOf(const File &connection);
/// True for addresses of the loopback interface.
bool isOwnMachine(const std::string &address);

/// Reads or writes all bytes while the ranks join; returns false if the peer
/// closed the connection, or is late. `idle` is called before each wait.
bool readAll(const File &connection, void *data, size_t bytes,
             const Patience &patience, double times = 1,
             const std::function<void()> &idle = {});
bool writeAll(const File &connection, const void *data, size_t bytes,
              const Patience &patience);

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_SOCKETS_H
