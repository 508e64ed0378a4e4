// What the ranks of transport `tcp` write to one another before they are
// joined, as it is in memory: all are of one build and one kind of machine.
#ifndef SCALIFY_RUNTIME_COMM_TCP_GREETING_H
#define SCALIFY_RUNTIME_COMM_TCP_GREETING_H

#include <cstdint>
#include <string>

namespace scalify::rt::tcp {

/// Before all else in each direction: another service's answer has none.
constexpr uint64_t greetingMagic = 0x32706374'6c616373;

struct Hello {
  uint64_t magic, job;
  int32_t rank, size, process;
  uint16_t port; // where it listens for ranks after it
};

/// Rank 0's answer; where it is no refusal, an Entry for each rank follows.
/// Then what a rank says when it has its connections, or why not, and rank 0
/// when all have.
struct Reply {
  uint64_t magic = greetingMagic;
  int32_t isRefusal = 0;
  char text[1012] = "";
};

struct Entry {
  char host[60];
  int32_t process;
  uint16_t port;
};

inline uint64_t hashOfJob(const std::string &job) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : job)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_GREETING_H
