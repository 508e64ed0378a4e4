//===- RankWalk.cpp - Proof that ranks do not deadlock --------------------===//

#include "RankWalk.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace scalify;

/// True if the messages of two stages are the two ends of one.
static bool areTwoEnds(plan::MessageOp a, int64_t stageOfA, plan::MessageOp b,
                       int64_t stageOfB) {
  return a.isSend() != b.isSend() && a.getPeer() == stageOfB &&
         b.getPeer() == stageOfA;
}

static LogicalResult checkAgree(plan::MessageOp a, plan::MessageOp b) {
  if (a.getName() == b.getName() &&
      a.getMemory().getType() == b.getMemory().getType())
    return success();
  InFlightDiagnostic error =
      a.emitOpError("'") << a.getName() << "' of " << a.getMemory().getType()
                         << " meets '" << b.getName() << "' of "
                         << b.getMemory().getType();
  error.attachNote(b.getLoc()) << "the other end";
  return error;
}

static void noteHead(InFlightDiagnostic &error, StringRef who,
                     Operation *exchange) {
  Diagnostic &note = error.attachNote(exchange->getLoc()) << who;
  if (auto message = dyn_cast<plan::MessageOp>(exchange))
    note << (message.isSend() ? " sends '" : " waits for '")
         << message.getName() << (message.isSend() ? "' to" : "' of")
         << " stage " << message.getPeer();
  else
    note << " is in an "
         << stringifyCollectiveKind(
                cast<plan::CollectiveOp>(exchange).getKind())
         << " of its ranks";
}

namespace {
/// Simulates ranks that go through their exchanges; the ranks of a stage run
/// one program.
class Walk {
public:
  Walk(ArrayRef<SmallVector<Operation *>> programs, int64_t ranks)
      : programs(programs), ranks(ranks), next(programs.size() * ranks, 0) {}

  LogicalResult run();

private:
  /// Returns the next exchange of a rank; null when it has done all.
  Operation *head(size_t rank) const {
    ArrayRef<Operation *> program = programs[rank / ranks];
    return next[rank] < program.size() ? program[next[rank]] : nullptr;
  }
  FailureOr<bool> move(size_t rank);
  FailureOr<bool> meet(size_t rank, plan::MessageOp message);
  FailureOr<bool> meet(size_t rank, plan::CollectiveOp collective);
  LogicalResult reportStuck() const;

  ArrayRef<SmallVector<Operation *>> programs; // exchanges, by stage
  size_t ranks;                                // of each stage
  SmallVector<size_t> next;
};
} // namespace

/// The peer is the rank of the peer stage with the same number in its stage.
FailureOr<bool> Walk::meet(size_t rank, plan::MessageOp message) {
  size_t stage = rank / ranks;
  auto peer = static_cast<size_t>(message.getPeer());
  if (peer >= programs.size() || peer == stage)
    return message.emitOpError("of stage ")
           << stage << " names stage " << peer << " of " << programs.size();
  size_t otherRank = peer * ranks + rank % ranks;
  auto other = dyn_cast_or_null<plan::MessageOp>(head(otherRank));
  if (!other || !areTwoEnds(message, stage, other, peer))
    return false;
  if (failed(checkAgree(message, other)))
    return failure();
  ++next[rank];
  ++next[otherRank];
  return true;
}

/// Groups number the ranks within a stage. Conservatively, all ranks of a
/// permute wait for each other.
FailureOr<bool> Walk::meet(size_t rank, plan::CollectiveOp collective) {
  DenseIntElementsAttr groups = collective.getGroups();
  auto all = llvm::to_vector(groups.getValues<int64_t>());
  size_t own = rank % ranks, size = groups.getType().getDimSize(1);
  if (collective.getKind() == plan::CollectiveKind::Permute) {
    all = llvm::to_vector(llvm::seq<int64_t>(0, ranks));
    size = ranks;
  }
  ArrayRef<int64_t> group;
  for (ArrayRef<int64_t> rest = all; !rest.empty();
       rest = rest.drop_front(size))
    if (llvm::is_contained(rest.take_front(size), own))
      group = rest.take_front(size);
  if (group.empty())
    return collective.emitOpError("leaves out rank ")
           << own << " of the " << ranks
           << (programs.size() > 1 ? " that a stage has" : " that there are");
  for (int64_t member : group) {
    if (member < 0 || static_cast<size_t>(member) >= ranks)
      return collective.emitOpError("names rank ")
             << member << " of a stage's " << ranks;
    if (head(rank - own + member) != collective)
      return false;
  }
  for (int64_t member : group)
    ++next[rank - own + member];
  return true;
}

FailureOr<bool> Walk::move(size_t rank) {
  Operation *exchange = head(rank);
  if (!exchange)
    return false;
  if (auto message = dyn_cast<plan::MessageOp>(exchange))
    return meet(rank, message);
  return meet(rank, cast<plan::CollectiveOp>(exchange));
}

LogicalResult Walk::reportStuck() const {
  for (size_t rank = 0; rank < next.size(); ++rank) {
    if (!head(rank))
      continue;
    bool hasStages = programs.size() > 1;
    InFlightDiagnostic error = head(rank)->emitOpError("is never met: ")
                               << (hasStages ? "stages" : "ranks")
                               << " would wait for ever";
    llvm::SmallPtrSet<Operation *, 8> noted;
    for (size_t other = 0; other < next.size(); ++other)
      if (head(other) && noted.insert(head(other)).second)
        noteHead(error,
                 hasStages ? "stage " + std::to_string(other / ranks)
                           : "rank " + std::to_string(other),
                 head(other));
    return error;
  }
  return success();
}

LogicalResult Walk::run() {
  bool hasMoved = true;
  while (hasMoved) {
    hasMoved = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      FailureOr<bool> moved = move(rank);
      if (failed(moved))
        return failure();
      hasMoved |= *moved;
    }
  }
  return reportStuck();
}

SmallVector<Operation *> scalify::listExchanges(plan::ProgramOp program) {
  SmallVector<Operation *> exchanges;
  for (Operation &op : program.getBody().front())
    if (isa<plan::MessageOp, plan::CollectiveOp>(op))
      exchanges.push_back(&op);
  return exchanges;
}

LogicalResult
scalify::simulateExchanges(ArrayRef<SmallVector<Operation *>> programs,
                           int64_t ranks) {
  if (ranks > kMaxRanks)
    for (ArrayRef<Operation *> exchanges : programs)
      if (!exchanges.empty())
        return exchanges.front()->emitOpError("is of a job of more than ")
               << kMaxRanks << " ranks";
  return Walk(programs, ranks).run();
}
