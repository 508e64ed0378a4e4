//===- PlanStreams.h - Order of commands on streams -------------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_PLAN_PLANSTREAMS_H
#define SCALIFY_DIALECT_PLAN_PLANSTREAMS_H

#include "scalify/Dialect/Plan/Plan.h"

#include <optional>

namespace scalify::plan {

/// Returns the stream of a command.
int64_t streamOf(mlir::Operation *command);

/// Maximum number of streams: a GPU runs few kernels concurrently.
inline constexpr int64_t kMaxStreams = 16;

/// Memory that a command touches, in an argument, result or temporary, or in
/// the arena once temporaries have offsets.
struct Access {
  std::pair<int, int64_t> memory; // kind and index
  int64_t begin, end;             // bytes
  bool isWrite;

  bool conflictsWith(const Access &other) const {
    return memory == other.memory && begin < other.end && other.begin < end &&
           (isWrite || other.isWrite);
  }
};

/// Returns the access through one operand; none for constants.
std::optional<Access> accessOf(mlir::OpOperand &operand);

/// Returns all accesses of a command, without constants, which are never
/// written. Accesses of unknown ops count as writes.
llvm::SmallVector<Access> accessesOf(mlir::Operation *command);

/// The order that streams and events impose on the ops of a program, by
/// position. All streams start after everything before the step, and the step
/// ends when all are done.
class StreamOrder {
public:
  explicit StreamOrder(ProgramOp program);

  bool isConcurrent() const { return streams > 1; }
  /// True if the op at `first` is done when the op at `second` starts.
  bool isBefore(int64_t first, int64_t second) const;
  /// Returns the last position of an op that may run concurrently with one of
  /// these.
  int64_t getLastConcurrent(llvm::ArrayRef<int64_t> positions) const;

private:
  int64_t &seen(int64_t position, int64_t stream) {
    return clocks[position * streams + stream];
  }
  int64_t seen(int64_t position, int64_t stream) const {
    return clocks[position * streams + stream];
  }

  int64_t streams = 1;
  llvm::SmallVector<int64_t> stream, ordinal; // by position
  llvm::SmallVector<int64_t> clocks;          // by position, stream
  llvm::SmallVector<llvm::SmallVector<int64_t>> positions; // by stream
};

/// Fails if two commands may run at the same time and one of them writes a byte
/// that the other touches.
mlir::LogicalResult verifyStreams(ProgramOp program);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANSTREAMS_H
