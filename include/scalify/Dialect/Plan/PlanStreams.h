//===- PlanStreams.h - Which command is done before which -------*- C++ -*-===//

#ifndef SCALIFY_DIALECT_PLAN_PLANSTREAMS_H
#define SCALIFY_DIALECT_PLAN_PLANSTREAMS_H

#include "scalify/Dialect/Plan/Plan.h"

#include <optional>

namespace scalify::plan {

/// The stream of a command, 0 where it has none; on an attribute.
inline constexpr llvm::StringLiteral kStreamAttr = "plan.stream";
int64_t streamOf(mlir::Operation *command);

/// Streams of a program at most: a GPU runs few kernels side by side.
inline constexpr int64_t kMostStreams = 16;

/// Memory that a command touches: of one argument, result or temporary, or of
/// the arena once temporaries have offsets in it.
struct Access {
  std::pair<int, int64_t> memory; // kind and which
  int64_t begin, end;             // bytes
  bool isWrite;

  bool conflictsWith(const Access &other) const {
    return memory == other.memory && begin < other.end && other.begin < end &&
           (isWrite || other.isWrite);
  }
};

/// What a command does with one of its buffers; nothing for constants.
std::optional<Access> accessOf(mlir::OpOperand &operand);

/// Constants, which nobody writes, are left out. What an op does with an
/// operand that is not known here counts as a write.
llvm::SmallVector<Access> accessesOf(mlir::Operation *command);

/// The order that streams and events give the ops of a program, by position.
/// All streams start behind what is before the step, and the step ends when all
/// are done.
class StreamOrder {
public:
  explicit StreamOrder(ProgramOp program);

  bool isConcurrent() const { return streams > 1; }
  /// True if the op at `first` is done when that at `second` starts.
  bool isBefore(int64_t first, int64_t second) const;
  /// The last position from which something may still run beside one of these.
  int64_t heldUntil(llvm::ArrayRef<int64_t> positions) const;

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

/// Fails where two commands may run at the same time and one of them writes a
/// byte that the other one touches.
mlir::LogicalResult verifyStreams(ProgramOp program);

} // namespace scalify::plan

#endif // SCALIFY_DIALECT_PLAN_PLANSTREAMS_H
