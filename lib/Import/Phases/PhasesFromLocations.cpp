//===- PhasesFromLocations.cpp - Compute phases from JAX's locations ------===//
//
// JAX puts the transformations under which it traced an op into the op's stack
// of names: `jvp(` for the function that is differentiated, `transpose(` for
// the backward pass, and `rematted_computation` inside a transpose for ops that
// a checkpoint recomputes. Of nested transformations the outermost decides: a
// gradient that is part of the loss, as in a penalty on gradients, is traced
// under `jvp(transpose(` and evaluated like the rest of the loss. An op traced
// under none of them either prepares the forward or follows the gradients.
//
// A block may contain several steps, unrolled or in a loop's body. StepOrder
// separates them, so that the update between two steps is not part of the
// second one's forward, although that needs it.
//
//===----------------------------------------------------------------------===//

#include "Phases.h"

#include "../ArgumentInfo.h"
#include "../NextValues.h"
#include "EarlyGradients.h"
#include "ForwardOps.h"
#include "StepOrder.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Import/Locations.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

static bool isRecomputed(StringRef stack) {
  return stack.contains("rematted_computation");
}

bool scalify::import::isRecomputedByNames(Operation *op) {
  return isRecomputed(getNameStack(op->getLoc()));
}

std::optional<Phase> scalify::import::getPhaseFromNames(Operation *op) {
  std::string stack = getNameStack(op->getLoc());
  bool recomputed = isRecomputed(stack);
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
      : main(main), phases(phases) {}

  bool compute();

private:
  std::optional<Phase> getNodePhase(Operation &node);
  void findNamedPhases(Block &within);
  void findStateFeeders(Block &within, ArrayRef<Value> state);
  void settleSteps(Block &within, const StepOrder &order);
  bool isStep(Block &body, const StepOrder &order);
  Phase decide(Operation &node, const StepOrder &order);
  void settleBody(Block &body, Phase around);
  void settleMicroBatches(Block &body, Phase around, const StepOrder &order);
  Phase getCarryPhase(BlockArgument argument, Phase around);

  func::FuncOp main;
  PhaseMap &phases;
  PhaseMap told; // phases by an op's own names
  llvm::DenseSet<Operation *> feedsState;
};

} // namespace

/// A loop or branch without names of its own has the last phase inside it.
std::optional<Phase> LocationPhases::getNodePhase(Operation &node) {
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

void LocationPhases::findNamedPhases(Block &within) {
  for (Operation &node : within)
    if (std::optional<Phase> phase = getNodePhase(node))
      told[&node] = *phase;
}

void LocationPhases::findStateFeeders(Block &within, ArrayRef<Value> state) {
  OpSet feeders = getDependencies(within, state);
  feedsState.insert(feeders.begin(), feeders.end());
}

/// Returns the phase of an op without named phase. An op that depends on
/// gradients and that the next step's forward needs is an update.
Phase LocationPhases::decide(Operation &node, const StepOrder &order) {
  StepOrder::Place place = order.getPlace(&node);
  std::optional<StepOrder::Place> need = order.getNeed(&node);
  if (need && need->step == place.step)
    return std::min(place.phase, need->phase);
  if (place.phase == Phase::Forward && (need || !feedsState.contains(&node)))
    return Phase::Forward;
  return Phase::Optimizer;
}

void LocationPhases::settleSteps(Block &within, const StepOrder &order) {
  for (Operation &node : within.without_terminator()) {
    auto own = told.find(&node);
    phases[&node] = own != told.end() ? own->second : decide(node, order);
  }
  // Ops that only the optimizer reads, such as a learning rate computed from a
  // counter, or the decay of a moment.
  for (Operation &node : llvm::reverse(within)) {
    if (told.contains(&node) || node.hasTrait<OpTrait::IsTerminator>())
      continue;
    std::optional<StepOrder::Place> need = order.getNeed(&node);
    if (need && need->step == order.getPlace(&node).step)
      continue;
    auto isUpdate = [&](Operation *user) {
      auto phase = phases.find(within.findAncestorOpInBlock(*user));
      return phase != phases.end() && phase->second == Phase::Optimizer;
    };
    if (need ? !node.use_empty() && llvm::all_of(node.getUsers(), isUpdate)
             : llvm::any_of(node.getUsers(), isUpdate))
      phases[&node] = Phase::Optimizer;
  }
}

/// True if ops that are forward by their names read the value, also in loops or
/// through ops without a named phase.
static bool isReadByForward(Value value) {
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    for (OpOperand &use : reached[i].getUses()) {
      Operation *user = use.getOwner();
      std::optional<Phase> phase = getPhaseFromNames(user);
      if (phase == Phase::Forward)
        return true;
      if (auto loop = dyn_cast<stablehlo::WhileOp>(user))
        reached.insert(loop.getBody().getArgument(use.getOperandNumber()));
      else if (!phase)
        reached.insert_range(user->getResults());
    }
  }
  return false;
}

/// True if a loop's body updates values that its own forward reads by values
/// computed from gradients. No forward reads a sum of gradients, and a
/// cotangent is written by an op with a named phase.
bool LocationPhases::isStep(Block &body, const StepOrder &order) {
  if (!isa<stablehlo::WhileOp>(body.getParentOp()))
    return false;
  return llvm::any_of(
      llvm::zip(body.getArguments(), body.getTerminator()->getOperands()),
      [&](auto carry) {
        auto [argument, next] = carry;
        Operation *written = next.getDefiningOp();
        return written && !told.contains(written) &&
               StepOrder::Place{0, Phase::Forward} < order.getPlace(next) &&
               isReadByForward(argument);
      });
}

/// A carry has the phase of the op that computes its next value, if named.
Phase LocationPhases::getCarryPhase(BlockArgument argument, Phase around) {
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

/// Settles a body with a forward and its backward, but no update, from the
/// phases of operands and users.
void LocationPhases::settleMicroBatches(Block &body, Phase around,
                                        const StepOrder &order) {
  for (Operation &node : body) {
    auto own = told.find(&node);
    Phase phase = Phase::Forward;
    if (own != told.end()) {
      phase = own->second;
    } else {
      for (Value read : getReads(node))
        if (Operation *source = read.getDefiningOp())
          phase = std::max(phase, phases.lookup(source));
        else if (read.getParentBlock() == &body)
          phase =
              std::max(phase, getCarryPhase(cast<BlockArgument>(read), around));
      if (std::optional<StepOrder::Place> need = order.getNeed(&node))
        phase = std::min(phase, need->phase);
    }
    phases[&node] = phase;
  }
}

/// Returns main's results other than new state and what may be a gradient: by
/// its names one that is made early is forward.
static SmallVector<Value> getLosses(func::FuncOp main, const NextValues &next) {
  llvm::DenseSet<Type> types; // of arguments whose gradients are not found
  for (BlockArgument argument : main.getArguments())
    if (!next.hasNextValue(argument.getArgNumber()) &&
        isa<FloatType>(getElementTypeOrSelf(argument.getType())))
      types.insert(argument.getType());
  SmallVector<Value> losses;
  for (auto [index, value] : llvm::enumerate(getResults(main)))
    if (cast<ShapedType>(value.getType()).getRank() == 0 ||
        (!next.isNextValue(index) && !types.contains(value.getType())))
      losses.push_back(value);
  return losses;
}

/// Returns the scalars that a loop accumulates or stacks.
static SmallVector<Value> getLosses(Block &body) {
  SmallVector<Value> losses;
  for (Value value : body.getTerminator()->getOperands()) {
    if (auto stack = value.getDefiningOp<stablehlo::DynamicUpdateSliceOp>())
      value = stack.getUpdate();
    auto type = dyn_cast<ShapedType>(value.getType());
    if (type && isa<FloatType>(type.getElementType()) &&
        type.getNumElements() == 1 && value.getDefiningOp())
      losses.push_back(value);
  }
  return losses;
}

/// Inside loops and branches names decide, and then the phase of the op around,
/// unless the body has both a forward and its backward.
void LocationPhases::settleBody(Block &body, Phase around) {
  findNamedPhases(body);
  if (SmallVector<Value> losses = getLosses(body); !losses.empty())
    markEarlyGradients(body, losses, told);
  bool hasForward = false, hasBackward = false;
  for (Operation &node : body)
    if (auto own = told.find(&node); own != told.end())
      (own->second == Phase::Forward ? hasForward : hasBackward) = true;
  StepOrder order(body, told, phases);
  if (hasBackward && isStep(body, order)) {
    findStateFeeders(body,
                     SmallVector<Value>(body.getTerminator()->getOperands()));
    settleSteps(body, order);
  } else if (hasForward && hasBackward) {
    settleMicroBatches(body, around, order);
  } else {
    for (Operation &node : body) {
      auto own = told.find(&node);
      phases[&node] = own != told.end() ? own->second : around;
    }
  }
  for (Operation &node : body)
    for (Region &region : node.getRegions())
      for (Block &inner : region)
        settleBody(inner, phases.lookup(&node));
}

bool LocationPhases::compute() {
  Block &block = main.getBody().front();
  findNamedPhases(block);
  if (told.empty())
    return false;
  auto isTold = [&](Operation *op, Phase phase) {
    auto own = told.find(op);
    return own != told.end() && own->second == phase;
  };
  NextValues next(
      main, [&](Operation *op) { return isTold(op, Phase::Forward); },
      [&](Operation *op) { return isTold(op, Phase::Backward); });
  markEarlyGradients(block, getLosses(main, next), told);
  if (llvm::any_of(
          told, [](auto &entry) { return entry.second == Phase::Backward; })) {
    SmallVector<Value> state;
    for (auto [index, value] : llvm::enumerate(getResults(main)))
      if (next.isNextValue(index))
        state.push_back(value);
    findStateFeeders(block, state);
  }
  settleSteps(block, StepOrder(block, told, phases));
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
