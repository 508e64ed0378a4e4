//===- BodyPhases.cpp - Phases inside loops and branches ------------------===//
//
// Without names, a body's ops would all have the phase of the op around them.
// Two kinds of loops mix phases. In a loop of the backward, ops that do not
// depend on a gradient were recomputed by a checkpoint, or only read values
// that the forward saved. A loop over micro-batches is forward, since it sums
// the loss, but contains a backward of its own: the ops that the loss does not
// need, if there is a dot among them.
//
//===----------------------------------------------------------------------===//

#include "BodyPhases.h"

#include "ForwardOps.h"
#include "ValueNumbering.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;
using stablehlo::WhileOp;

namespace {

class BodyPhases {
public:
  explicit BodyPhases(PhaseMap &phases) : phases(phases) {}
  void assign(Operation *op, const llvm::DenseSet<Value> &gradients);

private:
  void assignBackwardLoop(WhileOp loop, llvm::DenseSet<Value> gradients);
  void assignForwardLoop(WhileOp loop);
  OpSet getLossNeeds(WhileOp loop);
  void recurse(Block &block, const llvm::DenseSet<Value> &gradients);
  void setAll(Operation *op, Phase phase);

  PhaseMap &phases;
};

} // namespace

static bool hasProduct(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return stablehlo::isContraction(inner) ? WalkResult::interrupt()
                                               : WalkResult::advance();
      })
      .wasInterrupted();
}

void BodyPhases::setAll(Operation *op, Phase phase) {
  op->walk([&](Operation *inner) {
    if (takesPhase(inner))
      phases[inner] = phase;
  });
}

void BodyPhases::recurse(Block &block, const llvm::DenseSet<Value> &gradients) {
  for (Operation &op : block)
    if (stablehlo::isControlFlow(&op))
      assign(&op, gradients);
}

/// Adds the results of readers of gradients; barriers forward each value
/// separately.
static void spread(Operation &op, llvm::DenseSet<Value> &gradients) {
  if (isa<stablehlo::OptimizationBarrierOp>(op)) {
    for (auto [operand, result] : llvm::zip(op.getOperands(), op.getResults()))
      if (gradients.contains(operand))
        gradients.insert(result);
  } else if (llvm::any_of(getReads(op), [&](Value read) {
               return gradients.contains(read);
             })) {
    gradients.insert(op.result_begin(), op.result_end());
  }
}

/// Ops that depend on no gradient are forward. Gradients propagate through
/// carries.
void BodyPhases::assignBackwardLoop(WhileOp loop,
                                    llvm::DenseSet<Value> gradients) {
  Block &body = loop.getBody().front();
  for (auto [arg, init] : llvm::zip(body.getArguments(), loop.getOperands()))
    if (gradients.contains(init))
      gradients.insert(arg);
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation &op : body.without_terminator())
      spread(op, gradients);
    for (auto [arg, next] :
         llvm::zip(body.getArguments(), body.getTerminator()->getOperands()))
      if (gradients.contains(next))
        changed |= gradients.insert(arg).second;
  }
  for (Operation &op : body.without_terminator())
    if (op.getNumResults() > 0)
      setAll(&op, gradients.contains(op.getResult(0)) ? Phase::Backward
                                                      : Phase::Forward);
  recurse(body, gradients);
}

/// Returns the ops needed by results of the loop that the forward reads, or
/// that may be the loss.
OpSet BodyPhases::getLossNeeds(WhileOp loop) {
  Block &body = loop.getBody().front();
  SmallVector<bool> isNeeded;
  for (Value result : loop.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    bool mayBeLoss =
        type && type.getRank() == 0 && isa<FloatType>(type.getElementType());
    isNeeded.push_back(
        mayBeLoss || llvm::any_of(result.getUsers(), [&](Operation *user) {
          auto phase = phases.find(user);
          return phase != phases.end() && phase->second == Phase::Forward;
        }));
  }
  OpSet needs;
  for (size_t found = 1, before = 0; found != before;) {
    before = found;
    SmallVector<Value> values;
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (isNeeded[i])
        values.push_back(value);
    needs = getDependencies(body, values);
    for (Operation *op : needs)
      for (Value read : getReads(*op))
        if (auto arg = dyn_cast<BlockArgument>(read);
            arg && arg.getOwner() == &body)
          isNeeded[arg.getArgNumber()] = true;
    found = 1 + llvm::count(isNeeded, true);
  }
  return needs;
}

void BodyPhases::assignForwardLoop(WhileOp loop) {
  Block &body = loop.getBody().front();
  OpSet needs = getLossNeeds(loop);
  bool holdsGradients = false;
  for (Operation &op : body.without_terminator())
    holdsGradients |= !needs.empty() && !needs.contains(&op) && hasProduct(&op);
  if (!holdsGradients)
    return recurse(body, {});
  ValueNumbering numbers(body);
  llvm::DenseSet<Value> gradients;
  for (Operation &op : body.without_terminator()) {
    bool isForward =
        needs.contains(&op) || needs.contains(numbers.getLeader(&op));
    setAll(&op, isForward ? Phase::Forward : Phase::Backward);
    if (!isForward && !op.hasTrait<OpTrait::ConstantLike>())
      gradients.insert(op.result_begin(), op.result_end());
  }
  recurse(body, gradients);
}

void BodyPhases::assign(Operation *op, const llvm::DenseSet<Value> &gradients) {
  auto loop = dyn_cast<WhileOp>(op);
  Phase phase = phases.lookup(op);
  if (!loop)
    for (Region &region : op->getRegions())
      recurse(region.front(), gradients);
  else if (phase == Phase::Backward)
    assignBackwardLoop(loop, gradients);
  else if (phase == Phase::Forward)
    assignForwardLoop(loop);
}

void scalify::import::refineBodies(func::FuncOp main, PhaseMap &phases) {
  // Constants, such as zeros that gradients start from, are no gradients.
  llvm::DenseSet<Value> gradients;
  Block &block = main.getBody().front();
  for (Operation &op : block) {
    auto phase = phases.find(&op);
    if (phase != phases.end() && phase->second == Phase::Backward &&
        !op.hasTrait<OpTrait::ConstantLike>())
      gradients.insert(op.result_begin(), op.result_end());
  }
  BodyPhases bodies(phases);
  for (Operation &op : block)
    if (stablehlo::isControlFlow(&op))
      bodies.assign(&op, gradients);
}
