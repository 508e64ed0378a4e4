// Messages between ranks of transport `tcp` before they have joined, as they
// lie in memory: all ranks have the same build and kind of machine.
//
//   listener -> caller   Challenge
//   caller -> listener   Hello, with the caller's proof
//   listener -> caller   Verdict, with the listener's proof
//
// Neither end believes the other before its proof. Later messages come from
// ranks of the job.
#ifndef SCALIFY_RUNTIME_COMM_TCP_GREETING_H
#define SCALIFY_RUNTIME_COMM_TCP_GREETING_H

#include <array>
#include <cstdint>
#include <string>

namespace scalify::rt::tcp {

/// Comes first in each message: another service's answer does not have it.
constexpr uint64_t greetingMagic = 0x33706374'6c616373;

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

struct Challenge {
  uint64_t magic = greetingMagic;
  Nonce nonce = {};
};

struct Hello {
  uint64_t magic, job;
  int32_t rank, size, process;
  int32_t to;    // the listener's rank
  uint64_t port; // where it listens for higher ranks
  Nonce nonce;
  Proof proof;
};
static_assert(sizeof(Hello) == 104, "a proof covers all bytes: no padding");

struct Verdict {
  enum Code : uint64_t { Accepted, OtherJob, OtherSecret };
  uint64_t magic = greetingMagic;
  Code code = Accepted;
  Proof proof = {};
};

/// Rank 0's answer to a rank. Unless it is a refusal, an Entry for each rank
/// follows. Afterwards each rank sends a Reply when it has its connections, or
/// why not, and rank 0 sends one when all ranks have them.
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

inline uint64_t hashJobName(const std::string &job) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : job)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_GREETING_H
