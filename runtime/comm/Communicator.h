// What ranks exchange in the middle of a step. Sums go in the order of the
// group's members, so that they have the same bits on every rank, in every run
// and on every transport.
#ifndef SCALIFY_RUNTIME_COMM_COMMUNICATOR_H
#define SCALIFY_RUNTIME_COMM_COMMUNICATOR_H

#include "support/Types.h"

#include <string>
#include <vector>

namespace scalify::rt {

/// How elements that several ranks have become one.
enum class Join : uint8_t { Sum, Product, Max, Min, And, Or };

/// One collective as this rank takes part in it. Memory is dense: a gather puts
/// the members' parts one behind the other, and what is scattered or exchanged
/// has as many parts, of equal size, in their order.
struct Collective {
  enum class Kind : uint8_t {
    AllReduce,
    ReduceScatter,
    AllGather,
    /// What the first of the members has.
    Broadcast,
    AllToAll,
    Permute,
    /// Between two ranks, each of which says so: one sends, one hears.
    Message
  };
  Kind kind = Kind::AllReduce;
  Join join = Join::Sum;
  DType type = DType::F32;
  int64_t elements = 0; // of this rank's source
  /// The ranks of this rank's group, in the order of parts.
  std::vector<int32_t> members;
  /// Permute, Message: whom this rank sends to and hears from; -1 for nobody.
  /// Of a permute it gets zeros then; of a message its memory stays as it is.
  int32_t to = -1, from = -1;
  std::string name, loc;
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t size() const = 0;
  /// Whether the others are there, and not only written down.
  virtual bool hasOthers() const { return true; }

  /// Counts from 0, for errors; told before the commands of a step.
  virtual void beginStep(uint64_t step) = 0;
  /// Returns when `destination` has this rank's result. Source and destination
  /// may be the same memory where both are as large. Throws Error that names
  /// the rank, collective and step where a rank failed.
  virtual void run(const Collective &collective, const void *source,
                   void *destination) = 0;
  /// Bytes that this rank has sent to others since it was opened, without
  /// headers.
  virtual uint64_t bytesSent() const = 0;
  /// Counts what this rank has sent past it, as GPUs do.
  virtual void addBytesSent(uint64_t bytes) {}

  /// Seconds that another rank may be late.
  virtual double timeout() const { return 300; }
  /// This rank gives up: what the others do with it from now on throws an Error
  /// that says so with that text. Errors of run() do this themselves.
  virtual void abort(const std::string &reason) {}
  /// Called at least every 0.1 s while run() waits; where it returns other than
  /// 0, run() throws SCALIFY_RT_INTERRUPTED.
  virtual void setPoll(int (*poll)(void *context), void *context) {}
  /// From another thread than run()'s: until the next step, it does as if the
  /// poll had returned other than 0, and tells the others why.
  virtual void interrupt(const char *why) noexcept {}
};

const char *name(Collective::Kind kind);
const char *name(Join join);

/// A gather of bytes among all ranks, in their order.
Collective gatherOfAll(int32_t ranks, const char *name, size_t bytes);

/// Bytes that a rank sends for a collective.
int64_t bytesSent(const Collective &collective, int32_t rank);

} // namespace scalify::rt

#endif // SCALIFY_RUNTIME_COMM_COMMUNICATOR_H
