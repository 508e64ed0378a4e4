// The caller's end of a greeting.
#ifndef SCALIFY_RUNTIME_COMM_TCP_INTRODUCTION_H
#define SCALIFY_RUNTIME_COMM_TCP_INTRODUCTION_H

#include "comm/tcp/Proof.h"
#include "comm/tcp/Sockets.h"

namespace scalify::rt::tcp {

/// How the listener has answered.
enum class Answer {
  Accepted,    // it is the rank that was called
  Ended,       // it closed the connection, for lack of room or time
  Silent,      // it did not answer
  Foreign,     // it is no rank
  OtherJob,    // it is of another job
  OtherSecret, // it refuses this rank's proof, or does not prove itself
};

/// Introduces the rank of `hello`, whose nonce and proof are made here. `idle`
/// is called while it waits.
Answer introduce(const File &connection, Hello hello,
                 const Knowledge &knowledge, const Patience &patience,
                 const std::function<void()> &idle = {});

} // namespace scalify::rt::tcp

#endif // SCALIFY_RUNTIME_COMM_TCP_INTRODUCTION_H
