//===- AssignStreams.cpp - Concurrent chains of commands ------------------===//
//
// The longest path through the program stays on the first stream. A command
// with slack, which could start later without making the step longer, may leave
// it, in a chain with those that it feeds; it does if the commands that would
// run concurrently leave more of the GPU idle than two events cost.
//
//===----------------------------------------------------------------------===//

#include "StreamCommands.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Fusion/Passes.h"

#include <cmath>

namespace scalify {
#define GEN_PASS_DEF_ASSIGNSTREAMS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {
/// The time that a command takes by itself, and the time that it would take if
/// it filled the whole GPU.
struct Cost {
  double time = 0;
  double work = 0;
};

struct Command : StreamCommand {
  Cost cost;
  SmallVector<size_t> feeds;       // by number of the command
  double earliest = 0, latest = 0; // start
  bool mayMove = false;
};
} // namespace

static Cost costOf(plan::GemmOp gemm, const TargetInfo &gpu) {
  Type element = cast<MemRefType>(gemm.getA().getType()).getElementType();
  double batch = 1;
  for (int64_t extent : gemm.getBatch())
    batch *= static_cast<double>(extent);
  double tiles =
      batch * static_cast<double>(llvm::divideCeil(gemm.getM(), gpu.tile) *
                                  llvm::divideCeil(gemm.getN(), gpu.tile));
  double deep = 2.0 * static_cast<double>(gemm.getK()) / gpu.flops.of(element);
  double work = batch * static_cast<double>(gemm.getM() * gemm.getN()) * deep;
  double waves = std::ceil(tiles / gpu.processors) * gpu.processors;
  double time = waves * static_cast<double>(gpu.tile * gpu.tile) * deep;
  return {std::max(gpu.launch, time), work};
}

static Cost costOf(Operation *op, const TargetInfo &gpu) {
  if (auto gemm = dyn_cast<plan::GemmOp>(op))
    return costOf(gemm, gpu);
  double bytes = 0;
  for (const plan::Access &access : plan::accessesOf(op))
    bytes += static_cast<double>(access.end - access.begin);
  double time = bytes / gpu.bandwidth;
  return {std::max(gpu.launch, time), time};
}

/// Returns the time that running the two concurrently saves over running them
/// one after the other.
static double savedBy(const Cost &a, const Cost &b) {
  return a.time + b.time - std::max({a.time, b.time, a.work + b.work});
}

//===----------------------------------------------------------------------===//
// Slack
//===----------------------------------------------------------------------===//

static SmallVector<Command> readCosts(plan::ProgramOp program) {
  const TargetInfo &gpu = TargetAttr::of(program);
  SmallVector<Command> commands;
  for (StreamCommand &command : readCommands(program)) {
    for (size_t need : command.needs)
      commands[need].feeds.push_back(commands.size());
    Cost cost = costOf(command.op, gpu);
    commands.push_back({std::move(command), cost, {}});
  }
  return commands;
}

/// Marks the commands with slack: they could start later by their own duration.
static void findSlack(MutableArrayRef<Command> commands) {
  double end = 0;
  for (Command &command : commands) {
    for (size_t need : command.needs)
      command.earliest = std::max(
          command.earliest, commands[need].earliest + commands[need].cost.time);
    end = std::max(end, command.earliest + command.cost.time);
  }
  for (Command &command : llvm::reverse(commands)) {
    double due = end;
    for (size_t feed : command.feeds)
      due = std::min(due, commands[feed].latest);
    command.latest = due - command.cost.time;
    // Attentions share one workspace, so they stay on the first stream.
    command.mayMove = isa<plan::KernelOp, plan::GemmOp>(command.op) &&
                      command.latest - command.earliest >= command.cost.time;
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct AssignStreamsPass : scalify::impl::AssignStreamsBase<AssignStreamsPass> {
  using AssignStreamsBase::AssignStreamsBase;
  void runOnOperation() override;

private:
  void assign(plan::ProgramOp program);
  struct Stretch {
    size_t begin = 0, end = 0; // commands
    Cost own;                  // of the chain
    double saved = 0;
  };
  Stretch findStretch(ArrayRef<Command> commands, ArrayRef<size_t> chain,
                      size_t free) const;
  void place(MutableArrayRef<Command> commands, ArrayRef<size_t> chain);
  void boundChains(MutableArrayRef<Command> commands);

  /// The command up to which each further stream is busy.
  SmallVector<size_t> busy;
  double eventTime = 0; // of the target
  struct Placed {
    size_t first, last; // commands of the chain
    size_t end;         // the command before which the model has it done
  };
  SmallVector<Placed> placed;
};
} // namespace

// Longer chains would not run beside the program but be half of it.
static constexpr size_t kMaxChainLength = 64;

/// Returns the chain of movable commands that starts at `first`: each is fed by
/// an earlier one of the chain.
static SmallVector<size_t> chainFrom(ArrayRef<Command> commands, size_t first) {
  SmallVector<size_t> chain = {first};
  for (size_t i = first + 1;
       i < commands.size() && chain.size() < kMaxChainLength; ++i) {
    if (!commands[i].mayMove)
      continue;
    bool isFed = llvm::any_of(commands[i].needs, [&](size_t need) {
      return llvm::is_contained(chain, need);
    });
    if (!isFed)
      break;
    chain.push_back(i);
  }
  return chain;
}

/// Finds the stretch of the first stream that would run concurrently with
/// `chain`, and the time that this saves.
AssignStreamsPass::Stretch
AssignStreamsPass::findStretch(ArrayRef<Command> commands,
                               ArrayRef<size_t> chain, size_t free) const {
  Stretch stretch = {std::max(free, chain.front()), 0, {}, 0};
  size_t end = commands.size();
  for (size_t i : chain) {
    stretch.own.time += commands[i].cost.time;
    stretch.own.work += commands[i].cost.work;
    for (size_t need : commands[i].needs)
      if (!llvm::is_contained(chain, need))
        stretch.begin = std::max(stretch.begin, need + 1);
    for (size_t feed : commands[i].feeds)
      if (!llvm::is_contained(chain, feed))
        end = std::min(end, feed);
  }
  Cost beside;
  stretch.end = stretch.begin;
  for (; stretch.end < end && beside.time < stretch.own.time; ++stretch.end) {
    if (commands[stretch.end].mayMove)
      continue;
    beside.time += commands[stretch.end].cost.time;
    beside.work += commands[stretch.end].cost.work;
  }
  stretch.saved = savedBy(stretch.own, beside) - 2 * eventTime;
  return stretch;
}

void AssignStreamsPass::place(MutableArrayRef<Command> commands,
                              ArrayRef<size_t> chain) {
  auto stream = llvm::min_element(busy);
  Stretch best;
  size_t length = 0;
  for (size_t i = 1; i <= chain.size(); ++i) {
    Stretch stretch = findStretch(commands, chain.take_front(i), *stream);
    if (stretch.saved > best.saved) {
      best = stretch;
      length = i;
    }
  }
  if (!length)
    return;
  numSaved += static_cast<uint64_t>(best.saved);
  for (size_t i : chain.take_front(length)) {
    commands[i].stream = 1 + std::distance(busy.begin(), stream);
    ++numMoved;
  }
  // Idle capacity that this chain fills is not available to another one.
  double rest = best.own.work;
  for (Command &command : commands.slice(best.begin, best.end - best.begin)) {
    double idle = command.cost.time - command.cost.work;
    double taken = command.mayMove ? 0 : std::clamp(idle, 0.0, rest);
    command.cost.work += taken;
    rest -= taken;
  }
  *stream = best.end;
  placed.push_back({chain.front(), chain[length - 1], best.end});
}

/// Makes each chain start after its predecessors in the program, and the first
/// stream wait for it where the model has it done. From there on, memory that
/// the chain or the commands beside it touch may be reused.
void AssignStreamsPass::boundChains(MutableArrayRef<Command> commands) {
  for (const Placed &chain : placed) {
    for (size_t i = chain.first; i-- > 0;)
      if (commands[i].stream == 0) {
        commands[chain.first].addNeed(i);
        break;
      }
    for (size_t i = std::max(chain.end, chain.last + 1); i < commands.size();
         ++i)
      if (commands[i].stream == 0) {
        commands[i].addNeed(chain.last);
        break;
      }
  }
}

void AssignStreamsPass::assign(plan::ProgramOp program) {
  SmallVector<Command> commands = readCosts(program);
  findSlack(commands);
  busy.assign(streams - 1, 0);
  placed.clear();
  for (size_t i = 0; i < commands.size();) {
    if (!commands[i].mayMove) {
      ++i;
      continue;
    }
    SmallVector<size_t> chain = chainFrom(commands, i);
    place(commands, chain);
    i = chain.back() + 1;
  }
  boundChains(commands);
  numEvents += placeEvents(llvm::to_vector_of<StreamCommand>(commands));
}

void AssignStreamsPass::runOnOperation() {
  if (streams < 1 || streams > plan::kMaxStreams) {
    getOperation()->emitError("streams must be 1 to ")
        << plan::kMaxStreams << ", not " << streams;
    return signalPassFailure();
  }
  if (streams == 1)
    return;
  eventTime = TargetAttr::of(getOperation()).event;
  for (auto program : getOperation().getOps<plan::ProgramOp>())
    assign(program);
}
