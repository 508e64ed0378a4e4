//===- RegionFacts.cpp - Facts through loops and branches -----------------===//
//
// A loop is executed on facts: for its trip count if that is known, else until
// trends show. So a residual stream grows by sqrt(layers), and an accumulator
// by its count, without a rule for either. Each carry then has one scale, the
// middle of its exponents, and one more pass over the body infers the facts
// under it.
//
//===----------------------------------------------------------------------===//

#include "scalify/Scaling/ScaleAnalysis.h"

#include "scalify/Dialect/StableHLO/DataMovement.h"
#include "scalify/Dialect/StableHLO/LoopIndices.h"
#include "scalify/Scaling/CarryFacts.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace scalify;

// Longer loops are extrapolated by their trend. Nested loops have smaller
// budgets, so that the cost of a nest stays a multiple of its size.
static constexpr int64_t kMaxIterations[] = {128, 16, 4};

/// Returns the update of a carry that starts as zeros and is only written.
Value ScaleAnalysis::getUpdateOfZeroStack(stablehlo::WhileOp loop,
                                          unsigned index) const {
  if (!lookup(loop->getOperand(index)).anyScale)
    return {};
  return stablehlo::getStackedUpdate(loop, index);
}

/// Returns the index of a slice of size one along a stack's first dimension, if
/// the iteration determines it.
static std::optional<stablehlo::LoopIndex>
getSliceIndex(Value stack, Value slice, ValueRange starts,
              stablehlo::LoopIndices &indices) {
  auto from = cast<RankedTensorType>(stack.getType());
  auto to = cast<RankedTensorType>(slice.getType());
  bool isSlice = from.getRank() > 0 && to.getDimSize(0) == 1 &&
                 from.getShape().drop_front() == to.getShape().drop_front();
  return isSlice ? indices.find(starts.front()) : std::nullopt;
}

void ScaleAnalysis::recordSlices(stablehlo::WhileOp loop) {
  Operation *terminator = loop.getBody().front().getTerminator();
  for (OpResult result : loop->getResults()) {
    unsigned number = result.getResultNumber();
    Value update = stablehlo::getStackedUpdate(loop, number);
    if (!update || !isFloatTensor(update.getType()))
      continue;
    auto op = terminator->getOperand(number)
                  .getDefiningOp<stablehlo::DynamicUpdateSliceOp>();
    std::optional<stablehlo::LoopIndex> index =
        getSliceIndex(result, update, op.getStartIndices(), *current->indices);
    Slices &written = slices[result];
    if (current->number == 0)
      written = {};
    if (!index)
      continue;
    written.index = *index;
    written.trips = stablehlo::getTripCount(loop).value_or(0);
    written.facts.push_back(lookup(update));
  }
}

std::optional<ScaleAnalysis::StackSlice>
ScaleAnalysis::getSlice(Operation *op) const {
  auto slice = dyn_cast<stablehlo::DynamicSliceOp>(op);
  if (!slice || !current)
    return std::nullopt;
  Value stack = lookThrough(slice.getOperand(),
                            Move::Invariant | Move::Barrier | Move::Cast);
  auto it = slices.find(stack);
  if (it == slices.end() || it->second.facts.empty())
    return std::nullopt;
  std::optional<stablehlo::LoopIndex> index = getSliceIndex(
      slice.getOperand(), slice, slice.getStartIndices(), *current->indices);
  const auto &[written, trips, facts] = it->second;
  if (!index || written.step == 0)
    return std::nullopt;
  int64_t distance = index->at(current->number) - written.start;
  int64_t iteration = distance / written.step;
  if (distance % written.step != 0 || iteration < 0 || iteration >= trips)
    return std::nullopt;
  return StackSlice{stack, std::min<size_t>(iteration, facts.size() - 1)};
}

/// Runs the body on facts, and records the facts of each carry on each entry
/// and after the last iteration.
void ScaleAnalysis::runLoop(stablehlo::WhileOp loop, unsigned depth,
                            MutableArrayRef<CarryFacts> carries,
                            llvm::function_ref<void()> visit) {
  Block &body = loop.getBody().front();
  std::optional<int64_t> trips = stablehlo::getTripCount(loop);
  int64_t budget = kMaxIterations[std::min<unsigned>(depth, 2)];
  int64_t rounds = std::min(budget, trips.value_or(kUnknownTrips));
  stablehlo::LoopIndices indices(loop);
  Iteration iteration{&indices};
  llvm::SaveAndRestore<Iteration *> scope(current, &iteration);
  for (int64_t round = 0; round < rounds; ++round) {
    iteration.number = round;
    for (auto [arg, carry] : llvm::zip(body.getArguments(), carries))
      facts[arg] = carry.last();
    inferBlock(body, depth + 1);
    recordSlices(loop);
    if (visit)
      visit();
    bool isSettled = !iteration.readsSlices;
    for (auto [i, carry] : llvm::enumerate(carries)) {
      Value next = body.getTerminator()->getOperand(i);
      if (next == body.getArgument(i))
        continue;
      if (Value update = getUpdateOfZeroStack(loop, i))
        next = update;
      const ScaleFacts &after = lookup(next);
      // Counters never settle, and no scale depends on them.
      isSettled &= carry.isSettledAt(after) || !isFloatTensor(next.getType());
      carry.add(after);
    }
    if (isSettled)
      return;
  }
  if (trips)
    for (CarryFacts &carry : carries)
      carry.extrapolate(static_cast<double>(*trips - rounds));
}

void ScaleAnalysis::enlargeBoundedCarries(stablehlo::WhileOp loop) {
  std::optional<double> share = priors.get(kBoundedCarries);
  Block &body = loop.getBody().front();
  for (unsigned i = 0; share && i < loop.getNumOperands(); ++i) {
    Value next = body.getTerminator()->getOperand(i);
    if (!hasScale(next.getType()) || stablehlo::isInvariantCarry(loop, i) ||
        stablehlo::getStackedUpdate(loop, i))
      continue;
    for (Value state : {Value(body.getArgument(i)), next}) {
      enlargeTowardsBound(facts[state], *share);
      // The backward saves the state as a slice of a stack.
      for (Operation *user : state.getUsers())
        if (isa<stablehlo::BroadcastInDimOp, stablehlo::ReshapeOp>(user))
          enlargeTowardsBound(facts[user->getResult(0)], *share);
    }
  }
}

/// Infers the facts inside the body under the merged carries, and those of the
/// results.
void ScaleAnalysis::settleCarries(stablehlo::WhileOp loop, unsigned depth,
                                  ArrayRef<CarryFacts> carries) {
  Block &body = loop.getBody().front(), &cond = loop.getCond().front();
  for (auto [i, carry] : llvm::enumerate(carries)) {
    ScaleFacts merged = carry.merge();
    if (!stablehlo::isInvariantCarry(loop, i))
      merged.rule = llvm::formatv("carry of a loop: middle of {0:F1} binades",
                                  carry.spread());
    facts[cond.getArgument(i)] = merged;
    facts[body.getArgument(i)] = std::move(merged);
  }
  {
    llvm::SaveAndRestore<Iteration *> scope(current, nullptr);
    inferBlock(body, depth + 1);
    inferBlock(cond, depth + 1);
  }
  enlargeBoundedCarries(loop);
  for (auto [i, carry] : llvm::enumerate(carries)) {
    ScaleFacts result = carry.last();
    if (Value update = getUpdateOfZeroStack(loop, i)) {
      // The stack, the slices written into it and those read from it later
      // share one scale.
      result = lookup(update);
      result.rule = "stacked over a loop: " + result.rule;
      facts[body.getArgument(i)] = result;
      facts[body.getTerminator()->getOperand(i)] = result;
    }
    result.constant.reset();
    facts[loop.getResult(i)] = std::move(result);
  }
}

/// Returns the facts of the carries as they enter the loop.
static SmallVector<CarryFacts, 0> getCarries(stablehlo::WhileOp loop,
                                             const ScaleAnalysis &facts) {
  SmallVector<CarryFacts, 0> carries(loop.getNumOperands());
  for (auto [carry, init] : llvm::zip(carries, loop.getOperands()))
    carry.add(facts.lookup(init));
  return carries;
}

void ScaleAnalysis::visitIterations(stablehlo::WhileOp loop, unsigned depth,
                                    llvm::function_ref<void()> visit) {
  SmallVector<CarryFacts, 0> carries = getCarries(loop, *this);
  SmallVector<GrowingCarry> kept = growing;
  runLoop(loop, /*depth=*/0, carries, visit);
  if (depth == 0) {
    settleCarries(loop, depth, carries);
  } else {
    // Loops that read the slices are visited as often, but facts are those of
    // an inner loop's budget.
    llvm::DenseMap<Value, Slices> visited;
    for (OpResult result : loop->getResults())
      if (auto it = slices.find(result); it != slices.end())
        visited[result] = it->second;
    inferLoop(loop, depth);
    for (auto &[result, written] : visited)
      slices[result] = std::move(written);
  }
  growing = std::move(kept);
}

void ScaleAnalysis::inferLoop(stablehlo::WhileOp loop, unsigned depth) {
  SmallVector<CarryFacts, 0> carries = getCarries(loop, *this);
  runLoop(loop, depth, carries);
  settleCarries(loop, depth, carries);
  findGrowing(loop, carries);
}

/// A device's shard of a value has the facts of the whole.
void ScaleAnalysis::inferManual(Operation *op, unsigned depth) {
  Block &body = op->getRegion(0).front();
  for (auto [arg, operand] : llvm::zip(body.getArguments(), op->getOperands()))
    facts[arg] = ScaleFacts(lookup(operand));
  inferBlock(body, depth);
  for (auto [result, value] :
       llvm::zip(op->getResults(), body.getTerminator()->getOperands()))
    facts[result] = ScaleFacts(lookup(value));
}

void ScaleAnalysis::inferBranches(Operation *op, unsigned depth) {
  SmallVector<CarryFacts, 0> results(op->getNumResults());
  for (Region &region : op->getRegions()) {
    inferBlock(region.front(), depth);
    Operation *terminator = region.front().getTerminator();
    for (auto [result, value] : llvm::zip(results, terminator->getOperands()))
      result.add(lookup(value));
  }
  for (auto [value, result] : llvm::zip(op->getResults(), results)) {
    ScaleFacts merged = result.merge();
    merged.rule =
        llvm::formatv("branches: middle of {0:F1} binades", result.spread());
    facts[value] = std::move(merged);
  }
  findDynamicResults(op, results);
}
