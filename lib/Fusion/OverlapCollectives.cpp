//===- OverlapCollectives.cpp - Overlap of collectives and compute --------===//
//
// A collective is issued as soon as possible, on a stream of its own, and the
// commands that compute wait for it where they first need its result. All ranks
// run the same plan, and so issue the same collectives in the same order.
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

/// A collective is small if it has fewer bytes than the largest one divided by
/// this.
static constexpr int64_t kSmallShare = 16;

namespace {
/// The interval of a collective between commands that compute, by their places
/// in the program.
struct Flight {
  int64_t behind = -1; // it is issued after this one; -1 for the step's start
  int64_t until = 0;   // the first one that must wait for it
};

struct Schedule {
  llvm::MapVector<size_t, Flight> flights; // by command
  /// Commands that only finish results of collectives, such as the last stage
  /// of a sum, and the command that first needs them. Issued earlier, they
  /// would stall there.
  llvm::DenseMap<size_t, int64_t> late;
  /// Kernels that compute, from arguments alone, sources that only collectives
  /// read, such as a bucket of weights: each precedes the first of these.
  llvm::DenseSet<size_t> packs;

  bool isComputed(size_t command) const {
    return !flights.contains(command) && !late.contains(command) &&
           !packs.contains(command);
  }
};

struct OverlapCollectivesPass
    : scalify::impl::OverlapCollectivesBase<OverlapCollectivesPass> {
  using OverlapCollectivesBase::OverlapCollectivesBase;
  void runOnOperation() override;

private:
  void overlap(plan::ProgramOp program);
  void overlapOfStage(plan::ProgramOp program);
};
} // namespace

/// Issues each collective after all that it depends on, including other
/// collectives.
static void issueAfterNeeds(ArrayRef<StreamCommand> commands,
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
  llvm::DenseMap<size_t, int64_t> until; // the latest of its collectives
  for (auto &[number, flight] : schedule.flights)
    for (size_t need : commands[number].needs)
      if (commands[need].needs.empty() &&
          isa<plan::KernelOp>(commands[need].op))
        until[need] = std::max(until[need], flight.until);
  for (auto [need, last] : until)
    schedule.packs.insert(need);
  // A command that overwrites an argument must stay after its readers.
  for (auto [number, command] : llvm::enumerate(commands))
    for (size_t need : command.needs)
      if (!schedule.flights.contains(number) &&
          static_cast<int64_t>(number) < until.lookup(need))
        schedule.packs.erase(need);
}

/// True if a kernel sums results of collectives, and reads nothing else that
/// the step computes.
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
  // For each command, the first command that computes and needs it, directly or
  // through dependent collectives.
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
  issueAfterNeeds(commands, schedule);
  return schedule;
}

/// Issues collectives that could all start with the step, such as all-gathers
/// of parameters, one ahead: otherwise all results would be in memory at once.
/// Small ones, such as all-gathers of norm gains, go with the next one: if a
/// large one were issued before the user of a small predecessor, only the
/// compute between their two users would hide it.
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
  // Ties are in program order, which is the order of the flights in memory.
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
  issueAfterNeeds(commands, schedule);
}

/// Makes collectives wait for the compute before their place of issue:
/// otherwise those that do not depend on it run ahead, and all their results
/// are in memory.
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

/// Reorders the commands by issue.
static SmallVector<StreamCommand> reorder(ArrayRef<StreamCommand> commands,
                                          const Schedule &schedule,
                                          int64_t mostInFlight) {
  llvm::DenseMap<size_t, int64_t> packed; // the place that a pack follows
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
  SmallVector<size_t> inFlight; // no command waits for these yet
  for (auto [to, from] : llvm::enumerate(order)) {
    StreamCommand command = {commands[from].op, commands[from].stream, {}};
    for (size_t need : commands[from].needs)
      command.addNeed(place[need]);
    if (schedule.flights.contains(from)) {
      // A communicator runs one collective at a time, in one order.
      if (collective)
        command.addNeed(*collective);
      collective = to;
      if (command.stream != 0)
        inFlight.push_back(to);
    } else if (mostInFlight > 0 && command.stream == 0 &&
               static_cast<int64_t>(inFlight.size()) > mostInFlight) {
      // Waits for this collective and so for all before it.
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
  removeEvents(program, commands);
  Schedule schedule = findSchedule(commands, sums);
  issueOneAhead(commands, schedule);
  if (mostInFlight > 0)
    waitBeforeIssue(commands, schedule);
  int64_t stream = 1;
  for (const StreamCommand &command : commands)
    stream = std::max(stream, command.stream + 1);
  stream = std::min(stream, plan::kMaxStreams - 1);
  // Where no compute overlaps, another stream would only cost two events.
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

/// Puts the messages and collectives of a pipeline stage on a stream. They keep
/// their places, which are those of the schedule: after their producers and
/// before their users.
void OverlapCollectivesPass::overlapOfStage(plan::ProgramOp program) {
  SmallVector<StreamCommand> commands = readCommands(program);
  removeEvents(program, commands);
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
