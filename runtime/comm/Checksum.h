// A checksum of messages, to detect damaged chunks.
#ifndef SCALIFY_RUNTIME_COMM_CHECKSUM_H
#define SCALIFY_RUNTIME_COMM_CHECKSUM_H

#include <cstdint>

namespace scalify::rt {

/// XXH3 of 64 bits.
uint64_t checksum(const void *data, uint64_t bytes);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_CHECKSUM_H
