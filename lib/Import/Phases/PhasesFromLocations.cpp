//===- PhasesFromLocations.cpp - Reads phases from JAX's locations --------===//
//
// JAX puts the transformations under which it traced an op in the op's stack of
// names: `jvp(` while it evaluates what will be differentiated, `transpose(`
// while it runs the derivative backwards, and `rematted_computation` where a
// checkpoint makes it evaluate again, inside a transpose. Of nested ones the
// outermost decides: a gradient that the loss is made of, as a penalty on
// gradients is, is traced under `jvp(transpose(` and evaluated as the rest of
// the loss. What is traced under none of them is either preparation (forward)
// or follows the gradients.
//
//===----------------------------------------------------------------------===//

#include "Phases.h"

#include "../ArgumentInfo.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

std::optional<Phase> scalify::import::getPhaseFromNames(Operation *op) {
  std::string stack = getNameStack(op->getLoc());
  bool recomputed = StringRef(stack).contains("rematted_computation");
  size_t transpose = stack.find("transpose("), jvp = stack.find("jvp(");
  if (transpose < jvp && !recomputed)
    return Phase::Backward;
  if (jvp != std::string::npos || recomputed)
    return Phase::Forward;
  return std::nullopt;
}

namespace {

class LocationPhases {
public:
  LocationPhases(func::FuncOp main, PhaseMap &phases)
      : main(main), block(main.getBody().front()), phases(phases) {}

  bool compute();

private:
  std::optional<Phase> readNode(Operation &node);
  void findTold(Block &within);
  void findNeeded(Block &within);
  void settleBody(Block &body, Phase around);
  Phase reach(Operation &node);
  Phase reachArgument(BlockArgument argument, Phase around);
  void findStateFeeders();
  Phase decide(Operation &node);

  func::FuncOp main;
  Block &block;
  PhaseMap &phases;
  llvm::DenseMap<Operation *, Phase> told;   // by an op's own names
  llvm::DenseMap<Operation *, Phase> needed; // first told phase that reads it
  llvm::DenseSet<Operation *> feedsState;
};

} // namespace

/// A loop or branch without names of its own counts as the last phase in it.
std::optional<Phase> LocationPhases::readNode(Operation &node) {
  std::optional<Phase> phase = getPhaseFromNames(&node);
  if (phase)
    return phase;
  node.walk([&](Operation *inner) {
    if (std::optional<Phase> found = getPhaseFromNames(inner))
      if (!phase || *phase < *found)
        phase = found;
  });
  return phase;
}

void LocationPhases::findTold(Block &within) {
  for (Operation &node : within)
    if (std::optional<Phase> phase = readNode(node))
      told[&node] = *phase;
}

/// Which told phases need each op, directly or not: the first of them.
void LocationPhases::findNeeded(Block &within) {
  for (Operation &node : llvm::reverse(within)) {
    auto own = told.find(&node);
    auto later = needed.find(&node);
    if (own == told.end() && later == needed.end())
      continue;
    Phase phase = own != told.end() ? own->second : later->second;
    for (Value read : getReads(node)) {
      Operation *source = read.getDefiningOp();
      if (!source)
        continue;
      auto [at, inserted] = needed.try_emplace(source, phase);
      if (!inserted)
        at->second = std::min(at->second, phase);
    }
  }
}

void LocationPhases::findStateFeeders() {
  SmallVector<int64_t> owners = getAliasedArguments(main);
  for (auto [value, owner] : llvm::zip_equal(getResults(main), owners))
    if (Operation *source = value.getDefiningOp(); source && owner >= 0)
      feedsState.insert(source);
  for (Operation &node : llvm::reverse(block))
    if (feedsState.contains(&node))
      for (Value read : getReads(node))
        if (Operation *source = read.getDefiningOp())
          feedsState.insert(source);
}

/// The last phase of what the op reads.
Phase LocationPhases::reach(Operation &node) {
  Phase reached = Phase::Forward;
  for (Value read : getReads(node))
    if (Operation *source = read.getDefiningOp())
      reached = std::max(reached, phases.lookup(source));
  return reached;
}

/// Of an op whose names tell nothing.
Phase LocationPhases::decide(Operation &node) {
  Phase reached = reach(node);
  auto need = needed.find(&node);
  if (need != needed.end())
    return std::min(reached, need->second);
  return reached == Phase::Forward && !feedsState.contains(&node)
             ? Phase::Forward
             : Phase::Optimizer;
}

/// A carry has the phase of what is written into it, if names tell that.
Phase LocationPhases::reachArgument(BlockArgument argument, Phase around) {
  auto loop = dyn_cast<stablehlo::WhileOp>(argument.getOwner()->getParentOp());
  if (!loop || argument.getOwner() != &loop.getBody().front())
    return around;
  unsigned index = argument.getArgNumber();
  Value next = argument.getOwner()->getTerminator()->getOperand(index);
  if (next == argument)
    return Phase::Forward;
  auto written = told.find(next.getDefiningOp());
  if (written != told.end())
    return written->second;
  Operation *start = loop->getOperand(index).getDefiningOp();
  return start ? phases.lookup(start) : Phase::Forward;
}

/// Inside of loops and branches names decide, and then the op around, unless
/// both a forward and its backward are in there, as of a micro-batch: then, as
/// outside, what an op reads and what reads it.
void LocationPhases::settleBody(Block &body, Phase around) {
  findTold(body);
  bool hasForward = false, hasBackward = false;
  for (Operation &node : body)
    if (auto own = told.find(&node); own != told.end())
      (own->second == Phase::Forward ? hasForward : hasBackward) = true;
  bool isMixed = hasForward && hasBackward;
  if (isMixed)
    findNeeded(body);
  for (Operation &node : body) {
    Phase phase = around;
    if (auto own = told.find(&node); own != told.end()) {
      phase = own->second;
    } else if (isMixed) {
      phase = reach(node);
      for (Value read : getReads(node))
        if (auto argument = dyn_cast<BlockArgument>(read);
            argument && argument.getOwner() == &body)
          phase = std::max(phase, reachArgument(argument, around));
      if (auto need = needed.find(&node); need != needed.end())
        phase = std::min(phase, need->second);
    }
    if (takesPhase(&node))
      phases[&node] = phase;
    for (Region &region : node.getRegions())
      for (Block &inner : region)
        settleBody(inner, phase);
  }
}

bool LocationPhases::compute() {
  findTold(block);
  if (told.empty())
    return false;
  bool anyGradient = llvm::any_of(
      told, [](auto &entry) { return entry.second == Phase::Backward; });
  findNeeded(block);
  if (anyGradient)
    findStateFeeders();
  for (Operation &node : block.without_terminator()) {
    auto own = told.find(&node);
    phases[&node] = own != told.end() ? own->second : decide(node);
  }
  // What the optimizer alone reads, such as a learning rate from a count.
  for (Operation &node : llvm::reverse(block)) {
    if (told.contains(&node) || needed.contains(&node))
      continue;
    for (Operation *user : node.getUsers())
      if (phases.lookup(block.findAncestorOpInBlock(*user)) == Phase::Optimizer)
        phases[&node] = Phase::Optimizer;
  }
  for (Operation &node : block)
    for (Region &region : node.getRegions())
      for (Block &body : region)
        settleBody(body, phases.lookup(&node));
  settleConstants(main, phases);
  return true;
}

bool scalify::import::computePhasesFromLocations(func::FuncOp main,
                                                 PhaseMap &phases) {
  return LocationPhases(main, phases).compute();
}
