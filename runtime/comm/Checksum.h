// A checksum of what is sent, to find chunks that arrive damaged.
#ifndef SCALIFY_RUNTIME_COMM_CHECKSUM_H
#define SCALIFY_RUNTIME_COMM_CHECKSUM_H

#include <cstdint>

namespace scalify::rt {

/// FNV-1a on 64-bit words in eight lanes, which are joined in the same way.
/// Each step is a bijection, so that a change of one word is always seen.
uint64_t checksum(const void *data, uint64_t bytes);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_CHECKSUM_H
