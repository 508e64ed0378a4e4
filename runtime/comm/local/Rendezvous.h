// The rendezvous of one machine's ranks, which gives them shared memory.
//
// Rank 0 creates the memory, which has no name in any file system, and listens
// on a socket without a file either (Linux's abstract names). So nothing is
// left behind, whenever and however a rank ends.
#ifndef SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H
#define SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H

#include "comm/local/Segment.h"
#include "scalify/transport.h"

#include <memory>

namespace scalify::rt::local {

/// Shared memory. Threads of one process share one mapping of it.
class Mapping {
public:
  Mapping(int file, int32_t size);
  ~Mapping();
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  const Segment &segment() const { return view; }

private:
  void *memory;
  size_t length;
  Segment view;
};

/// Returns when all ranks have joined, with their process ids in the slots.
/// Throws an Error on failure.
std::shared_ptr<Mapping> join(const scalify_transport_options &options);

} // namespace scalify::rt::local

#endif // SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H
