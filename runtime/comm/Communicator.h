// Collectives between the ranks of a step. Reductions go in the order of the
// group's members, so that their bits are the same on every rank, in every run
// and on every transport.
#ifndef SCALIFY_RUNTIME_COMM_COMMUNICATOR_H
#define SCALIFY_RUNTIME_COMM_COMMUNICATOR_H

#include "support/Types.h"

#include <string>
#include <vector>

namespace scalify::rt {

/// The reduction of the elements of several ranks.
enum class Join : uint8_t { Sum, Product, Max, Min, And, Or };

/// One collective from the view of this rank. Memory is dense: a gather
/// concatenates the members' parts in their order, and a scattered or exchanged
/// array has one part of equal size per member, in the same order.
struct Collective {
  enum class Kind : uint8_t {
    AllReduce,
    ReduceScatter,
    AllGather,
    /// Replicates the first member's array.
    Broadcast,
    AllToAll,
    Permute,
    /// From one rank to another; only these two issue it.
    Message
  };
  Kind kind = Kind::AllReduce;
  Join join = Join::Sum;
  DType type = DType::F32;
  int64_t elements = 0; // of this rank's source
  /// The ranks of this rank's group, in the order of parts.
  std::vector<int32_t> members;
  /// Permute, Message: the peers that this rank sends to and receives from; -1
  /// for none. Without a sender a permute yields zeros, and a message leaves
  /// the destination unchanged.
  int32_t to = -1, from = -1;
  std::string name, loc;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t size() const = 0;
  /// False if the other ranks are only recorded.
  virtual bool hasOthers() const { return true; }

  /// Called before the commands of a step, with its number, from 0, and the
  /// number of its program, which is the same on all ranks that run it. Ranks
  /// that differ in either get an Error.
  virtual void beginStep(uint64_t step, uint64_t program) = 0;
  /// Returns when `destination` has this rank's result. Source and destination
  /// may be the same memory if they have equal sizes. If a rank failed, throws
  /// an Error that names the rank, collective and step.
  virtual void run(const Collective &collective, const void *source,
                   void *destination) = 0;
  /// Bytes that this rank has sent since it was opened, without headers.
  virtual uint64_t bytesSent() const = 0;
  /// Adds bytes that this rank sent without the communicator, as GPUs do.
  virtual void addBytesSent(uint64_t bytes) {}

  /// Seconds by which another rank may be late.
  virtual double timeout() const { return 300; }
  /// Aborts this rank: from now on, exchanges of other ranks with it throw an
  /// Error with `reason`. Errors of run() call this themselves.
  virtual void abort(const std::string &reason) {}
  /// Sets a callback that is called at least every 0.1 s while run() waits. If
  /// it returns nonzero, run() throws SCALIFY_RT_INTERRUPTED.
  virtual void setPoll(int (*poll)(void *context), void *context) {}
  /// Called from another thread than run()'s. Until the next step, acts as if
  /// the poll had returned nonzero, and tells the other ranks why.
  virtual void interrupt(const char *why) noexcept {}
};

const char *name(Collective::Kind kind);
const char *name(Join join);

/// Returns a gather of bytes from all ranks, in their order.
Collective makeGatherOfAll(int32_t ranks, const char *name, size_t bytes);

/// Returns the bytes that a rank sends for a collective.
int64_t bytesSent(const Collective &collective, int32_t rank);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_COMMUNICATOR_H
