//===- PhasesFromSlices.cpp - Compute phases from the results' slices -----===//
//
// Without locations, the backward slices of the results give the phases.
//
// Forward are the ops that the loss needs (ForwardOps.cpp), and ops equal to
// those in value: copies by remat follow an optimization_barrier and would
// otherwise look like gradients.
//
// The optimizer is found in the rest from its two ends. Its start is found by
// state: ops that depend on a moment, a tensor of state that the forward does
// not read. Its end is found by shape: going back from the results, elementwise
// ops, broadcasts and reductions on shapes of state and scalars only, all of
// whose users are such ops. Both sets meet the gradients at dots, scatters and
// reductions over activations. Sums and conversions of gradients alone (tied
// weights, narrow dots) still belong to the backward.
//
// Of several unrolled steps, the last loss needs all steps before. Ops that add
// to state after a first gradient are updates nevertheless, and not forward.
//
//===----------------------------------------------------------------------===//

#include "Phases.h"

#include "../ArgumentInfo.h"
#include "../NextValues.h"
#include "BodyPhases.h"
#include "ForwardOps.h"
#include "ValueNumbering.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

namespace {

class SlicePhases {
public:
  SlicePhases(func::FuncOp main, bool named, PhaseMap &phases)
      : main(main), named(named), block(main.getBody().front()),
        phases(phases) {}

  bool compute();

private:
  void findForward(const OpSet &known);
  bool findState();
  void findEarlierUpdates();
  void findOptimizerByState();
  void findOptimizerByShape();
  bool findGradientStatistics();
  void returnSumsToBackward();
  OpSet getStateNeeds();
  void findForwardMetrics();
  void placeGradientMetrics();
  bool isOptimizerLike(Operation &op);
  bool isStateShaped(Type type);
  bool isReadByOptimizer(Value value);
  bool isIn(Operation *op, Phase phase) {
    auto at = phases.find(op);
    return at != phases.end() && at->second == phase;
  }

  func::FuncOp main;
  bool named; // by JAX: with its derivatives in the names
  Block &block;
  PhaseMap &phases;
  SmallVector<bool> stateArguments, stateResults;
  llvm::DenseSet<ArrayRef<int64_t>> stateShapes;
};

} // namespace

/// True for a product, a scatter, or an op with one in its regions.
static bool holdsProduct(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        bool isProduct =
            stablehlo::isContraction(inner) || isa<stablehlo::ScatterOp>(inner);
        return isProduct ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

void SlicePhases::findForward(const OpSet &known) {
  for (Operation *op : known)
    phases[op] = Phase::Forward;
  ValueNumbering numbers(block);
  for (Operation &op : block)
    if (isIn(numbers.getLeader(&op), Phase::Forward))
      phases[&op] = Phase::Forward;
}

/// Finds the arguments that have next values. Gradients are known by their
/// products, if there are any: other ops may belong to a metric. Returns false
/// if the names and the flow of data agree that nothing is trained.
bool SlicePhases::findState() {
  auto isLater = [&](Operation &op) {
    return takesPhase(&op) && !isIn(&op, Phase::Forward) &&
           !op.hasTrait<OpTrait::ConstantLike>();
  };
  bool hasProducts = llvm::any_of(
      block, [&](Operation &op) { return isLater(op) && holdsProduct(&op); });
  NextValues next(
      main, [&](Operation *op) { return isIn(op, Phase::Forward); },
      [&](Operation *op) {
        return isLater(*op) && (!hasProducts || holdsProduct(op));
      });
  if (named && !next.hasEvidence())
    return false;
  for (auto [index, argument] : llvm::enumerate(main.getArguments())) {
    stateArguments.push_back(next.hasNextValue(index));
    if (auto type = dyn_cast<RankedTensorType>(argument.getType());
        type && type.getRank() > 0 && stateArguments.back())
      stateShapes.insert(type.getShape());
  }
  for (unsigned index = 0; index < main.getNumResults(); ++index)
    stateResults.push_back(next.isNextValue(index));
  return true;
}

/// True if a type is a scalar or has the shape of some state.
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

/// Optimizer: after the first gradient, sums of state and of values computed
/// from dots, and the optimizer-like ops that feed them. An activation of this
/// form and shape stays wide, which costs no accuracy.
void SlicePhases::findEarlierUpdates() {
  Operation *first = findFirstGradient(main);
  if (!first)
    return;
  llvm::DenseSet<Value> state, fromProducts;
  for (auto [index, argument] : llvm::enumerate(main.getArguments()))
    if (stateArguments[index])
      state.insert(argument);
  OpSet updates;
  for (Operation &op : block) {
    bool made =
        stablehlo::isContraction(&op) || isa<stablehlo::ScatterOp>(op) ||
        llvm::any_of(getReads(op),
                     [&](Value read) { return fromProducts.contains(read); });
    if (made)
      fromProducts.insert(op.result_begin(), op.result_end());
    if (op.getNumResults() != 1 || !isOptimizerLike(op) ||
        llvm::none_of(op.getOperands(),
                      [&](Value read) { return state.contains(read); }))
      continue;
    if (isa<stablehlo::MulOp, stablehlo::ConvertOp>(op)) {
      state.insert(op.getResult(0)); // decayed
    } else if (isa<stablehlo::AddOp, stablehlo::SubtractOp>(op) && made &&
               first->isBeforeInBlock(&op)) {
      state.insert(op.getResult(0));
      if (isIn(&op, Phase::Forward))
        updates.insert(&op);
    }
  }
  for (Operation &op : llvm::reverse(block)) {
    if (!updates.contains(&op))
      continue;
    phases[&op] = Phase::Optimizer;
    for (Value read : op.getOperands())
      if (Operation *source = read.getDefiningOp();
          source && isIn(source, Phase::Forward) && isOptimizerLike(*source) &&
          fromProducts.contains(read))
        updates.insert(source);
  }
}

/// Optimizer: ops that depend on a moment.
void SlicePhases::findOptimizerByState() {
  llvm::DenseSet<Value> tainted;
  for (auto [index, argument] : llvm::enumerate(main.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    bool readByForward = llvm::any_of(argument.getUsers(), [&](Operation *op) {
      return isIn(block.findAncestorOpInBlock(*op), Phase::Forward);
    });
    // A scalar is no evidence: a loss scale enters the backward at its root.
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
    // A next step's weights depend on moments, but its gradients do not count.
    if (llvm::none_of(op.getUsers(), [&](Operation *user) {
          return isIn(block.findAncestorOpInBlock(*user), Phase::Forward);
        }))
      tainted.insert(op.result_begin(), op.result_end());
  }
}

/// Optimizer: ops that look like it and that only the optimizer reads.
void SlicePhases::findOptimizerByShape() {
  // Without state nothing is updated; there are at most sums of gradients.
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

/// True if the optimizer reads a value, or its transpose.
bool SlicePhases::isReadByOptimizer(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isIn(block.findAncestorOpInBlock(*user), Phase::Optimizer))
      return true;
    return user->getNumResults() == 1 &&
           lookThrough(user->getResult(0), Move::Layout) ==
               lookThrough(value, Move::Layout) &&
           isReadByOptimizer(user->getResult(0));
  });
}

/// Optimizer: products of gradients alone, such as the G G^T of Shampoo or the
/// iterations of Muon. Each product of a backward reads a value of the forward.
/// Here gradients are values of state's shape that the optimizer reads. Returns
/// true if there are such products.
bool SlicePhases::findGradientStatistics() {
  auto isGradient = [&](Value value) {
    value = lookThrough(value, Move::Layout);
    Operation *source = value.getDefiningOp();
    return source && !isIn(source, Phase::Forward) &&
           isStateShaped(value.getType()) && isReadByOptimizer(value);
  };
  bool found = false;
  for (Operation &op : block)
    if (stablehlo::isContraction(&op) && !phases.contains(&op) &&
        llvm::all_of(op.getOperands(), isGradient)) {
      phases[&op] = Phase::Optimizer;
      found = true;
    }
  return found;
}

/// Backward: sums and conversions of gradients alone.
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
  return getDependencies(block, state);
}

/// Forward: ops that only metrics need and that read only forward values.
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

/// Optimizer: metrics computed from gradients, such as their norm.
void SlicePhases::placeGradientMetrics() {
  OpSet needs = getStateNeeds();
  for (Operation &op : block)
    if (!needs.contains(&op) && isIn(&op, Phase::Backward))
      phases[&op] = Phase::Optimizer;
}

bool SlicePhases::compute() {
  OpSet forward = findForwardOps(main);
  findForward(forward);
  bool trains = !forward.empty() && findState();
  if (!trains) {
    for (Operation &op : block)
      phases[&op] = Phase::Forward;
  } else {
    findForwardMetrics();
    findEarlierUpdates();
    findOptimizerByState();
    do
      findOptimizerByShape();
    while (findGradientStatistics());
    returnSumsToBackward();
    placeGradientMetrics();
    settleConstants(main, phases);
  }
  main.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getParentOp() != main && takesPhase(op))
      phases[op] = phases.lookup(op->getParentOp());
  });
  if (trains)
    refineBodies(main, phases);
  return trains;
}

bool scalify::import::computePhasesFromSlices(func::FuncOp main, bool named,
                                              PhaseMap &phases) {
  return SlicePhases(main, named, phases).compute();
}
