// The header of each message. It has all that the receiver must expect, so that
// disagreeing ranks and damaged chunks are detected and named.
#ifndef SCALIFY_RUNTIME_COMM_MESSAGE_H
#define SCALIFY_RUNTIME_COMM_MESSAGE_H

#include "comm/Communicator.h"
#include "scalify/transport.h"

#include <string>

namespace scalify::rt {

struct MessageHeader {
  uint64_t magic;
  uint64_t step;
  uint64_t program;  // all ranks run it, see Communicator::beginStep
  uint64_t sequence; // number among the sender's messages to this receiver
  /// Hash of the whole name and, except for permutes and messages, the group.
  uint64_t agreement;
  int64_t elements;  // of the collective's source
  uint64_t bytes;    // of this message
  uint64_t checksum; // of its data
  Collective::Kind kind;
  Join join;
  DType type;
  char name[SCALIFY_TRANSPORT_HEADER - 8 * 8 - 3];
};
static_assert(sizeof(MessageHeader) == SCALIFY_TRANSPORT_HEADER);

/// Returns the fields that all messages of a collective share.
MessageHeader makeHeader(const Collective &collective, uint64_t step,
                         uint64_t program);

/// Describes how the header received from `peer` differs from the expected one,
/// or returns "". Does not compare checksums.
std::string difference(const MessageHeader &came, const MessageHeader &expected,
                       int32_t peer, int32_t rank);

/// "step 3, all_reduce 'grads'".
std::string describe(const Collective &collective, uint64_t step);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_MESSAGE_H
