//===- PhasesFromSlices.cpp - Derives phases from what results need -------===//
//
// Text without locations still tells what each result needs.
//
// Forward is what the loss needs, and ops equal to those in value: remat copies
// sit behind an optimization_barrier and would otherwise look like gradients.
//
// In the rest the optimizer is found from its two ends. Its state shows the
// start: what depends on a tensor of state that the forward does not read, a
// moment, belongs to it. Its shape shows the end: going back from the results,
// what is elementwise, a broadcast or a reduction, on shapes of state and
// scalars only, and is read by nothing but such ops. Both sets meet the
// gradients at products, scatters and reductions over activations. Sums and
// conversions of gradients alone (tied weights, narrow products) still belong
// to the backward.
//
//===----------------------------------------------------------------------===//

#include "Phases.h"

#include "../ArgumentInfo.h"
#include "ValueNumbering.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

using OpSet = llvm::DenseSet<Operation *>;

namespace {

class SlicePhases {
public:
  SlicePhases(func::FuncOp main, PhaseMap &phases)
      : main(main), block(main.getBody().front()), phases(phases),
        stateArguments(findStateArguments(main)),
        stateResults(findStateResults(main)) {
    for (auto [index, argument] : llvm::enumerate(main.getArguments()))
      if (auto type = dyn_cast<RankedTensorType>(argument.getType());
          type && type.getRank() > 0 && stateArguments[index])
        stateShapes.insert(type.getShape());
  }

  bool compute();

private:
  SmallVector<Value> findLosses();
  OpSet getNeeds(ArrayRef<Value> values);
  void findForward(ArrayRef<Value> losses);
  void findOptimizerByState();
  void findOptimizerByShape();
  void returnSumsToBackward();
  OpSet getStateNeeds();
  void findForwardMetrics();
  void placeGradientMetrics();
  bool isOptimizerLike(Operation &op);
  bool isStateShaped(Type type);
  bool isIn(Operation *op, Phase phase) {
    auto at = phases.find(op);
    return at != phases.end() && at->second == phase;
  }

  func::FuncOp main;
  Block &block;
  PhaseMap &phases;
  SmallVector<bool> stateArguments, stateResults;
  llvm::DenseSet<ArrayRef<int64_t>> stateShapes;
};

} // namespace

static bool isProduct(Operation *op) {
  return isa<stablehlo::DotGeneralOp, stablehlo::GatherOp,
             stablehlo::ScatterOp>(op) ||
         op->getName().stripDialect() == "convolution";
}

/// The ops of main's block that `values` need.
OpSet SlicePhases::getNeeds(ArrayRef<Value> values) {
  OpSet needs;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp())
      needs.insert(op);
  for (Operation &op : llvm::reverse(block))
    if (needs.contains(&op))
      for (Value read : getReads(op))
        if (Operation *source = read.getDefiningOp())
          needs.insert(source);
  return needs;
}

/// Scalar float results that are not state. Where there are several, those
/// whose name says "loss", else those that do not need the gradients: a
/// gradient norm needs most of the products that state needs, a loss a third.
SmallVector<Value> SlicePhases::findLosses() {
  SmallVector<Value> candidates, named;
  SmallVector<int64_t> owners = getAliasedArguments(main);
  for (auto [index, value] : llvm::enumerate(getResults(main))) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (owners[index] >= 0 || !type || type.getRank() != 0 ||
        !isa<FloatType>(type.getElementType()) || !value.getDefiningOp())
      continue;
    candidates.push_back(value);
    if (getResultInfo(main, index).contains_insensitive("loss"))
      named.push_back(value);
  }
  if (!named.empty() || candidates.size() <= 1)
    return named.empty() ? candidates : named;

  OpSet stateNeeds = getStateNeeds();
  int64_t all = llvm::count_if(stateNeeds, isProduct);
  SmallVector<Value> losses;
  for (Value candidate : candidates) {
    int64_t own = llvm::count_if(getNeeds(candidate), [&](Operation *op) {
      return isProduct(op) && (all == 0 || stateNeeds.contains(op));
    });
    if (own > 0 && (all == 0 || 10 * own <= 6 * all))
      losses.push_back(candidate);
  }
  return losses.empty() ? candidates : losses;
}

void SlicePhases::findForward(ArrayRef<Value> losses) {
  for (Operation *op : getNeeds(losses))
    phases[op] = Phase::Forward;
  ValueNumbering numbers(block);
  for (Operation &op : block)
    if (isIn(numbers.getLeader(&op), Phase::Forward))
      phases[&op] = Phase::Forward;
}

/// Whether a type is a scalar or has the shape of some state.
bool SlicePhases::isStateShaped(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         (tensor.getRank() == 0 || stateShapes.contains(tensor.getShape()));
}

bool SlicePhases::isOptimizerLike(Operation &op) {
  if (!op.hasTrait<OpTrait::Elementwise>() &&
      !op.hasTrait<stablehlo::OpTrait::TernaryElementwise>() &&
      !isa<stablehlo::BroadcastInDimOp, stablehlo::ConstantOp,
           stablehlo::IotaOp, stablehlo::ReduceOp>(op))
    return false;
  auto isFine = [&](Type type) { return isStateShaped(type); };
  return llvm::all_of(op.getOperandTypes(), isFine) &&
         llvm::all_of(op.getResultTypes(), isFine);
}

/// Optimizer: what depends on a moment.
void SlicePhases::findOptimizerByState() {
  llvm::DenseSet<Value> tainted;
  for (auto [index, argument] : llvm::enumerate(main.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    bool readByForward = llvm::any_of(argument.getUsers(), [&](Operation *op) {
      return isIn(block.findAncestorOpInBlock(*op), Phase::Forward);
    });
    // A scalar is no sign: a loss scale enters the backward at its root.
    if (stateArguments[index] && !readByForward && type && type.getRank() > 0)
      tainted.insert(argument);
  }
  for (Operation &op : block) {
    if (isIn(&op, Phase::Forward) ||
        llvm::none_of(getReads(op),
                      [&](Value read) { return tainted.contains(read); }))
      continue;
    if (!op.hasTrait<OpTrait::IsTerminator>())
      phases[&op] = Phase::Optimizer;
    tainted.insert(op.result_begin(), op.result_end());
  }
}

/// Optimizer: what looks like it and is read by nothing else.
void SlicePhases::findOptimizerByShape() {
  // With no state there is nothing to update: sums of gradients at most.
  if (llvm::none_of(stateArguments, [](bool state) { return state; }))
    return;
  for (Operation &op : llvm::reverse(block)) {
    if (phases.contains(&op) || !takesPhase(&op) || !isOptimizerLike(op))
      continue;
    bool readByOptimizer = llvm::all_of(op.getUsers(), [&](Operation *user) {
      Operation *node = block.findAncestorOpInBlock(*user);
      return node == block.getTerminator() || isIn(node, Phase::Optimizer);
    });
    if (readByOptimizer)
      phases[&op] = Phase::Optimizer;
  }
}

/// Backward: sums and conversions of nothing but gradients.
void SlicePhases::returnSumsToBackward() {
  for (Operation &op : block) {
    if (!phases.contains(&op) && takesPhase(&op))
      phases[&op] = Phase::Backward;
    if (!isIn(&op, Phase::Optimizer) ||
        !isa<stablehlo::AddOp, stablehlo::ConvertOp>(op))
      continue;
    if (llvm::all_of(op.getOperands(), [&](Value operand) {
          return isIn(operand.getDefiningOp(), Phase::Backward);
        }))
      phases[&op] = Phase::Backward;
  }
}

OpSet SlicePhases::getStateNeeds() {
  SmallVector<Value> state;
  for (auto [value, isState] : llvm::zip_equal(getResults(main), stateResults))
    if (isState)
      state.push_back(value);
  return getNeeds(state);
}

/// Forward: what only metrics need, and what it needs is forward.
void SlicePhases::findForwardMetrics() {
  OpSet needs = getStateNeeds();
  for (Operation &op : block) {
    bool readsForward = llvm::all_of(getReads(op), [&](Value read) {
      Operation *source = read.getDefiningOp();
      return !source || isIn(source, Phase::Forward);
    });
    if (!needs.contains(&op) && readsForward && takesPhase(&op))
      phases[&op] = Phase::Forward;
  }
}

/// Optimizer: metrics of the gradients, such as their norm.
void SlicePhases::placeGradientMetrics() {
  OpSet needs = getStateNeeds();
  for (Operation &op : block)
    if (!needs.contains(&op) && isIn(&op, Phase::Backward))
      phases[&op] = Phase::Optimizer;
}

bool SlicePhases::compute() {
  SmallVector<Value> losses = findLosses();
  if (losses.empty()) {
    for (Operation &op : block)
      phases[&op] = Phase::Forward;
  } else {
    findForward(losses);
    findForwardMetrics();
    findOptimizerByState();
    findOptimizerByShape();
    returnSumsToBackward();
    placeGradientMetrics();
    settleConstants(main, phases);
  }
  main.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getParentOp() != main && takesPhase(op))
      phases[op] = phases.lookup(op->getParentOp());
  });
  return !losses.empty();
}

bool scalify::import::computePhasesFromSlices(func::FuncOp main,
                                              PhaseMap &phases) {
  return SlicePhases(main, phases).compute();
}
