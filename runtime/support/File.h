// Owner of a file descriptor: a file, a socket or shared memory.
#ifndef SCALIFY_RUNTIME_SUPPORT_FILE_H
#define SCALIFY_RUNTIME_SUPPORT_FILE_H

#include <unistd.h>
#include <utility>

namespace scalify::rt {

/// Closes the descriptor that it owns.
class File {
public:
  explicit File(int number = -1) : number(number) {}
  ~File() {
    if (number >= 0)
      ::close(number);
  }
  File(File &&other) noexcept : number(std::exchange(other.number, -1)) {}
  File &operator=(File &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_SUPPORT_FILE_H
