// A checksum of messages, to detect damaged chunks.
#ifndef SCALIFY_RUNTIME_COMM_CHECKSUM_H
#define SCALIFY_RUNTIME_COMM_CHECKSUM_H

#include <cstdint>

namespace scalify::rt {

/// FNV-1a on 64-bit words in eight lanes, which are combined in the same way.
/// Each step is a bijection, so a change of one word is always detected.
uint64_t checksum(const void *data, uint64_t bytes);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_CHECKSUM_H
