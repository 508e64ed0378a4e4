// The header of each message: what its receiver must expect, so that ranks that
// disagree, and chunks that arrive damaged, are found and named.
#ifndef SCALIFY_RUNTIME_COMM_MESSAGE_H
#define SCALIFY_RUNTIME_COMM_MESSAGE_H

#include "comm/Communicator.h"
#include "scalify/transport.h"

#include <string>

namespace scalify::rt {

struct MessageHeader {
  uint64_t magic;
  uint64_t step;
  uint64_t sequence;  // of the sender's messages to this receiver
  uint64_t agreement; // hash of the whole name and, but for permute, the group
  int64_t elements;   // of the collective's source
  uint64_t bytes;     // of this message
  uint64_t checksum;  // of its data
  Collective::Kind kind;
  Join join;
  DType type;
  char name[SCALIFY_TRANSPORT_HEADER - 7 * 8 - 3];
};
static_assert(sizeof(MessageHeader) == SCALIFY_TRANSPORT_HEADER);

/// What all messages of a collective have in common.
MessageHeader headerOf(const Collective &collective, uint64_t step);

/// What differs between the header that came from `peer` and the expected one,
/// or "". Checksums are not compared.
std::string difference(const MessageHeader &came, const MessageHeader &expected,
                       int32_t peer, int32_t rank);

/// "step 3, all_reduce 'grads'".
std::string describe(const Collective &collective, uint64_t step);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_MESSAGE_H
