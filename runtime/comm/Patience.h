// The wait of joining ranks for one another: with a timeout, and in slices
// short enough for the caller's poll.
#ifndef SCALIFY_RUNTIME_COMM_PATIENCE_H
#define SCALIFY_RUNTIME_COMM_PATIENCE_H

#include "scalify/transport.h"

#include <chrono>
#include <poll.h>
#include <string>
#include <vector>

namespace scalify::rt {

class Patience {
public:
  explicit Patience(const scalify_transport_wait &wait)
      : limits(wait), start(std::chrono::steady_clock::now()) {}

  bool isOver(double times = 1) const {
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - start;
    return passed.count() > limits.seconds * times;
  }
  /// Throws an Error if the poll asks to stop.
  void check() const;
  /// Polls the descriptors for up to 50 ms.
  void waitFor(std::vector<pollfd> &files) const;
  void sleep(int milliseconds = 20) const;
  /// " within 300.0 s"
  std::string text(double times = 1) const;

private:
  scalify_transport_wait limits;
  std::chrono::steady_clock::time_point start;
};

/// Throws an Error: the ranks cannot join.
[[noreturn]] void failed(const std::string &text);
/// Throws an Error with errno's text: a call failed, so the ranks cannot join.
[[noreturn]] void failedCall(const std::string &what);

/// True for errors that a retry cannot fix, unlike a rank that has not started
/// yet.
bool isOutOfFiles(int code);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_PATIENCE_H
