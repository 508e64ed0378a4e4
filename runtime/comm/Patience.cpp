#include "comm/Patience.h"
#include "support/Error.h"

#include <cerrno>
#include <cstring>
#include <thread>

using namespace scalify::rt;

bool scalify::rt::isOutOfFiles(int code) {
  return code == EMFILE || code == ENFILE;
}

void scalify::rt::failed(const std::string &text) {
  throw Error(SCALIFY_RT_COMM, text);
}

void scalify::rt::failedCall(const std::string &what) {
  const int code = errno;
  std::string text = "cannot " + what + ": " + std::strerror(code);
  if (isOutOfFiles(code))
    text += "; a rank has a connection to each other one: allow more open "
            "files (ulimit -n)";
  failed(text);
}

void Patience::check() const {
  if (limits.poll && limits.poll(limits.context))
    throw Error(SCALIFY_RT_INTERRUPTED, "interrupted while the ranks joined");
}

void Patience::waitFor(std::vector<pollfd> &files) const {
  check();
  if (::poll(files.data(), files.size(), 50) < 0 && errno != EINTR)
    failedCall("wait for ranks");
}

void Patience::sleep(int milliseconds) const {
  check();
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::string Patience::text(double times) const {
  return " within " + std::to_string(limits.seconds * times).substr(0, 5) +
         " s";
}
