//===- OverlapCollectives.cpp - Communication beside computation ----------===//
//
// A collective is issued as soon as it can be, on a stream of its own, and the
// commands that compute wait for it where they first need what it did. All
// ranks run the same plan, and so issue the same collectives in the same order.
//
//===----------------------------------------------------------------------===//

#include "StreamCommands.h"

#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/Sequence.h"

namespace scalify {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// A collective of less than this part of the largest one's bytes is small.
static constexpr int64_t kSmallShare = 16;

namespace {
/// Where a collective stands among the commands that compute, by their places
/// in the program.
struct Flight {
  int64_t behind = -1; // is issued behind this one; -1 for the step's start
  int64_t until = 0;   // the first one that must wait for it
};

struct Schedule {
  llvm::MapVector<size_t, Flight> flights; // by command
  /// Commands that only finish what collectives brought, as the last stage of a
  /// sum, and the one before which that is needed: done earlier, they would
  /// wait there.
  llvm::DenseMap<size_t, int64_t> late;
  /// Kernels that make of arguments what collectives alone send, as a bucket of
  /// weights: each stands before the first of these.
  llvm::DenseSet<size_t> packs;

  bool isComputed(size_t command) const {
    return !flights.contains(command) && !late.contains(command) &&
           !packs.contains(command);
  }
};

class OverlapCollectivesPass
    : public scalify::impl::OverlapCollectivesBase<OverlapCollectivesPass> {
public:
  using OverlapCollectivesBase::OverlapCollectivesBase;
  void runOnOperation() override;

private:
  void overlap(plan::ProgramOp program);
  void overlapOfStage(plan::ProgramOp program);
};
} // namespace

/// A collective is issued behind all that it needs, other collectives too.
static void issueBehindNeeds(ArrayRef<StreamCommand> commands,
                             Schedule &schedule) {
  for (auto &[number, flight] : schedule.flights)
    for (size_t need : commands[number].needs) {
      if (schedule.packs.contains(need))
        continue;
      auto other = schedule.flights.find(need);
      flight.behind = std::max(flight.behind, other == schedule.flights.end()
                                                  ? static_cast<int64_t>(need)
                                                  : other->second.behind);
    }
}

static void findPacks(ArrayRef<StreamCommand> commands, Schedule &schedule) {
  llvm::DenseMap<size_t, int64_t> until; // of those that send it the last
  for (auto &[number, flight] : schedule.flights)
    for (size_t need : commands[number].needs)
      if (commands[need].needs.empty() &&
          isa<plan::KernelOp>(commands[need].op))
        until[need] = std::max(until[need], flight.until);
  for (auto [need, last] : until)
    schedule.packs.insert(need);
  // What overwrites an argument stays behind what reads it.
  for (auto [number, command] : llvm::enumerate(commands))
    for (size_t need : command.needs)
      if (!schedule.flights.contains(number) &&
          static_cast<int64_t>(number) < until.lookup(need))
        schedule.packs.erase(need);
}

/// Whether a kernel sums what collectives brought, and reads nothing else that
/// is made in the step.
static bool isRankSum(const StreamCommand &command,
                      const llvm::MapVector<size_t, Flight> &flights) {
  auto kernel = dyn_cast<plan::KernelOp>(command.op);
  return kernel && !command.needs.empty() &&
         llvm::any_of(kernel.getBody().getOps<stablehlo::ReduceOp>(),
                      [](Operation *reduce) {
                        return reduce->hasAttr(stablehlo::kInOrderAttr);
                      }) &&
         llvm::all_of(command.needs,
                      [&](size_t need) { return flights.contains(need); });
}

static Schedule findSchedule(ArrayRef<StreamCommand> commands, bool withSums) {
  Schedule schedule;
  auto &flights = schedule.flights;
  for (auto [number, command] : llvm::enumerate(commands))
    if (isa<plan::CollectiveOp>(command.op) ||
        (withSums && isRankSum(command, flights)))
      flights.insert({number, {}});
  auto isFlight = [&](size_t number) { return flights.contains(number); };
  auto end = static_cast<int64_t>(commands.size());
  // Before which command in its place each must be done. What waits for a
  // collective that waits for this one waits for this one.
  SmallVector<int64_t> due(commands.size(), end);
  llvm::DenseSet<size_t> sent; // what collectives read
  for (size_t number = commands.size(); number-- > 0;) {
    ArrayRef<size_t> needs = commands[number].needs;
    if (isFlight(number)) {
      flights[number].until = due[number];
      sent.insert(needs.begin(), needs.end());
    } else if (due[number] < end && !sent.contains(number) && !needs.empty() &&
               llvm::all_of(needs, isFlight)) {
      schedule.late[number] = due[number];
    }
    int64_t at = schedule.isComputed(number) ? static_cast<int64_t>(number)
                                             : due[number];
    for (size_t need : needs)
      due[need] = std::min(due[need], at);
  }
  findPacks(commands, schedule);
  issueBehindNeeds(commands, schedule);
  return schedule;
}

/// What could all be issued when the step starts, as gathers of parameters, is
/// issued one ahead: else all of them would be in memory at once. Small ones,
/// as gathers of norm gains, go with the next one: one ahead of a large one,
/// they would hide only what stands between both.
static void issueOneAhead(ArrayRef<StreamCommand> commands,
                          Schedule &schedule) {
  SmallVector<std::pair<Flight *, int64_t>> ready; // with bytes
  int64_t most = 0;
  for (auto &[number, flight] : schedule.flights) {
    Operation *op = commands[number].op;
    if (flight.behind >= 0 && !op->hasAttr(plan::kGatheredAgainAttr))
      continue;
    auto collective = dyn_cast<plan::CollectiveOp>(op);
    int64_t bytes =
        collective ? plan::bufferBytes(collective.getDestination()) : 0;
    ready.push_back({&flight, bytes});
    most = std::max(most, bytes);
  }
  // Equal ones in the order of the program, which is theirs in memory.
  llvm::sort(ready, [](const auto &a, const auto &b) {
    return std::pair(a.first->until, a.first) <
           std::pair(b.first->until, b.first);
  });
  int64_t behind = -1;
  for (auto [flight, bytes] : ready) {
    flight->behind = std::max(flight->behind, behind);
    if (bytes * kSmallShare >= most)
      behind = flight->until - 1;
  }
  issueBehindNeeds(commands, schedule);
}

/// Collectives wait for what is computed before the place where they are
/// issued: else those that need nothing of it run ahead, and all that they
/// bring is in memory.
static void waitBeforeIssue(MutableArrayRef<StreamCommand> commands,
                            const Schedule &schedule) {
  for (const auto &[number, flight] : schedule.flights) {
    int64_t behind = flight.behind;
    while (behind >= 0 && !schedule.isComputed(behind))
      --behind;
    if (behind >= 0)
      commands[number].addNeed(behind);
  }
}

/// Brings the commands into the order in which they are issued.
static SmallVector<StreamCommand> reorder(ArrayRef<StreamCommand> commands,
                                          const Schedule &schedule,
                                          int64_t mostInFlight) {
  llvm::DenseMap<size_t, int64_t> packed; // behind what
  for (auto &[number, flight] : schedule.flights)
    for (size_t need : commands[number].needs)
      if (schedule.packs.contains(need)) {
        auto [place, isNew] = packed.try_emplace(need, flight.behind);
        place->second = std::min(place->second, flight.behind);
      }
  auto placeOf = [&](size_t number) {
    if (auto pack = packed.find(number); pack != packed.end())
      return std::tuple(pack->second, 1, number);
    if (auto late = schedule.late.find(number); late != schedule.late.end())
      return std::tuple(late->second - 1, 2, number);
    auto flight = schedule.flights.find(number);
    return flight == schedule.flights.end()
               ? std::tuple(static_cast<int64_t>(number), 0, number)
               : std::tuple(flight->second.behind, 1, number);
  };
  auto order = llvm::to_vector(llvm::seq<size_t>(0, commands.size()));
  llvm::sort(order,
             [&](size_t a, size_t b) { return placeOf(a) < placeOf(b); });
  SmallVector<size_t> place(order.size());
  for (auto [to, from] : llvm::enumerate(order))
    place[from] = to;
  SmallVector<StreamCommand> moved;
  Operation *last = nullptr;
  std::optional<size_t> collective;
  SmallVector<size_t> inFlight; // that no command waits for yet
  for (auto [to, from] : llvm::enumerate(order)) {
    StreamCommand command = {commands[from].op, commands[from].stream, {}};
    for (size_t need : commands[from].needs)
      command.addNeed(place[need]);
    if (schedule.flights.contains(from)) {
      // Of a communicator one at a time, in one order.
      if (collective)
        command.addNeed(*collective);
      collective = to;
      if (command.stream != 0)
        inFlight.push_back(to);
    } else if (mostInFlight > 0 && command.stream == 0 &&
               static_cast<int64_t>(inFlight.size()) > mostInFlight) {
      // All before it are done, too.
      command.addNeed(inFlight[inFlight.size() - mostInFlight - 1]);
      inFlight.erase(inFlight.begin(), inFlight.end() - mostInFlight);
    }
    if (last)
      command.op->moveAfter(last);
    last = command.op;
    moved.push_back(std::move(command));
  }
  return moved;
}

void OverlapCollectivesPass::overlap(plan::ProgramOp program) {
  if (program.getBody().getOps<plan::CollectiveOp>().empty())
    return;
  SmallVector<StreamCommand> commands = readCommands(program);
  takeEvents(program, commands);
  Schedule schedule = findSchedule(commands, sums);
  issueOneAhead(commands, schedule);
  if (mostInFlight > 0)
    waitBeforeIssue(commands, schedule);
  int64_t stream = 1;
  for (const StreamCommand &command : commands)
    stream = std::max(stream, command.stream + 1);
  stream = std::min(stream, plan::kMostStreams - 1);
  // Where nothing is computed meanwhile, another stream would be two events for
  // nothing.
  for (auto &[number, flight] : schedule.flights) {
    auto between = llvm::seq<int64_t>(flight.behind + 1, flight.until);
    if (llvm::none_of(between,
                      [&](int64_t i) { return schedule.isComputed(i); }))
      continue;
    commands[number].stream = stream;
    ++numOverlapped;
  }
  numEvents += placeEvents(reorder(commands, schedule, mostInFlight));
}

/// What a pipeline's stage exchanges, with other stages and among its ranks,
/// keeps its place, which is that of the schedule: what it needs is before it
/// and what needs it behind.
void OverlapCollectivesPass::overlapOfStage(plan::ProgramOp program) {
  SmallVector<StreamCommand> commands = readCommands(program);
  takeEvents(program, commands);
  std::optional<size_t> last;
  for (auto [number, command] : llvm::enumerate(commands)) {
    if (!isa<plan::MessageOp, plan::CollectiveOp>(command.op))
      continue;
    if (last)
      command.addNeed(*last);
    last = number;
    command.stream = 1;
    ++numOverlapped;
  }
  numEvents += placeEvents(commands);
}

void OverlapCollectivesPass::runOnOperation() {
  for (auto program : getOperation().getOps<plan::ProgramOp>()) {
    if (program.getBody().getOps<plan::MessageOp>().empty())
      overlap(program);
    else
      overlapOfStage(program);
  }
}
