// How the ranks of one machine find one another and get memory in common.
//
// Rank 0 makes the memory, which has no name in any file system, and listens on
// a socket that has none either (Linux's abstract names). So nothing is left
// behind, whenever and however a rank ends.
#ifndef SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H
#define SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H

#include "comm/local/Segment.h"
#include "scalify/transport.h"

#include <memory>

namespace scalify::rt::local {

/// Shared memory; threads of one process have one mapping of it.
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

/// Returns when all ranks have joined, with their processes in the slots;
/// throws Error.
std::shared_ptr<Mapping> join(const scalify_transport_options &options);

} // namespace scalify::rt::local

#endif // SCALIFY_RUNTIME_COMM_LOCAL_RENDEZVOUS_H
