//===- Unroller.cpp - Unroll loops of known trip count --------------------===//

#include "scalify/Import/Unroller.h"
#include "scalify/Dialect/StableHLO/Edits.h"

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Values.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace scalify;

using MaybeValues = FailureOr<SmallVector<Value>>;

namespace {
/// Unrolls the loops of one block.
class Unroller {
public:
  Unroller(Block &block, UnrollOptions options)
      : block(block), options(std::move(options)),
        folder(block.front().getContext()) {}

  LogicalResult run();

  UnrollCounts counts;

private:
  MaybeValues resolve(Operation *op);
  bool stays(Operation *op);
  bool exceedsMaxOps(stablehlo::WhileOp loop, int64_t trips) const;
  MaybeValues unroll(stablehlo::WhileOp loop);
  MaybeValues inlineBlock(Block &from, ValueRange arguments, Operation *before);
  Value shareConstant(stablehlo::ConstantOp op);
  Block *getBranch(Operation *op);
  void guardCalls(Operation *op, int64_t branch, Operation *first);
  MaybeValues select(Operation *op);

  Block &block;
  UnrollOptions options;
  int64_t count = 0;
  IndexFolder folder;
  llvm::DenseMap<std::pair<DictionaryAttr, Type>, Value> constants;
};
} // namespace

/// Returns the branch that is taken, if known.
Block *Unroller::getBranch(Operation *op) {
  APInt index;
  if (!isa<stablehlo::CaseOp, stablehlo::IfOp>(op) ||
      !matchPattern(op->getOperand(0), m_ConstantInt(&index)))
    return nullptr;
  uint64_t last = op->getNumRegions() - 1;
  // The first region of an if is the true branch.
  uint64_t branch = isa<stablehlo::IfOp>(op)
                        ? (index.isZero() ? last : 0)
                        : std::min(index.getLimitedValue(last), last);
  return &op->getRegion(branch).front();
}

/// Clones each constant once, at the start of the block, for all iterations.
Value Unroller::shareConstant(stablehlo::ConstantOp op) {
  Value &shared = constants[{op->getAttrDictionary(), op.getType()}];
  if (!shared) {
    OpBuilder b = OpBuilder::atBlockBegin(&block);
    shared = b.clone(*op)->getResult(0);
  }
  return shared;
}

/// Clones the ops of a body or branch, and returns the yielded values.
MaybeValues Unroller::inlineBlock(Block &from, ValueRange arguments,
                                  Operation *before) {
  OpBuilder b(before);
  IRMapping map;
  map.map(from.getArguments(), arguments);
  for (Operation &op : from.without_terminator()) {
    if (auto constant = dyn_cast<stablehlo::ConstantOp>(op)) {
      map.map(constant.getOutput(), shareConstant(constant));
      continue;
    }
    b.setInsertionPoint(before);
    ++count;
    MaybeValues values = resolve(b.clone(op, map));
    if (failed(values))
      return failure();
    map.map(op.getResults(), *values);
  }
  SmallVector<Value> results;
  for (Value value : from.getTerminator()->getOperands())
    results.push_back(map.lookupOrDefault(value));
  return results;
}

bool Unroller::exceedsMaxOps(stablehlo::WhileOp loop, int64_t trips) const {
  auto size =
      static_cast<int64_t>(loop.getBody().front().getOperations().size());
  return trips > (options.maxOps - count) / size;
}

bool Unroller::stays(Operation *op) {
  auto loop = dyn_cast<stablehlo::WhileOp>(op);
  if (!loop)
    return isa<stablehlo::CaseOp, stablehlo::IfOp>(op) && !getBranch(op);
  std::optional<int64_t> trips = stablehlo::getTripCount(loop);
  return !trips || exceedsMaxOps(loop, *trips) ||
         stablehlo::countUnrolledOps(loop) > options.maxLoopOps;
}

MaybeValues Unroller::unroll(stablehlo::WhileOp loop) {
  std::optional<int64_t> trips = stablehlo::getTripCount(loop);
  if (!trips) {
    loop.emitOpError(
        "runs a number of times that is not known: a plan has "
        "such loops without collectives, and "
        "without callbacks that have side effects; give it "
        "constant bounds (jax.lax.scan, or fori_loop with Python "
        "integers), or loop over steps; scalify.transform leaves "
        "it to XLA, and on a CPU scalify.jit(fallback=\"xla\") has "
        "XLA run it within the step");
    return failure();
  }
  Block &body = loop.getBody().front();
  if (exceedsMaxOps(loop, *trips)) {
    loop.emitOpError("would become ")
        << *trips << " times " << body.getOperations().size()
        << " ops, and there may be " << options.maxOps
        << " in all; loop over steps, or raise 'max-ops' of "
           "--scalify-unroll-loops";
    return failure();
  }
  SmallVector<Value> carries(loop->getOperands());
  for (int64_t trip = 0; trip < *trips; ++trip) {
    MaybeValues next = inlineBlock(body, carries, loop);
    if (failed(next))
      return failure();
    carries = *next;
  }
  ++counts.loops;
  counts.iterations += *trips;
  return carries;
}

/// Builds the condition that `branch` is taken.
static Value makeCondition(OpBuilder &b, Operation *op, int64_t branch) {
  using namespace stablehlo;
  Location loc = op->getLoc();
  Value index = op->getOperand(0);
  int64_t last = op->getNumRegions() - 1;
  if (isa<IfOp>(op))
    return branch == 0 ? index : NotOp::create(b, loc, index).getResult();
  auto compare = [&](int64_t number, ComparisonDirection direction) -> Value {
    return CompareOp::create(b, loc, index, buildIndex(b, loc, number),
                             direction);
  };
  if (branch != last)
    return compare(branch, ComparisonDirection::EQ);
  // Out-of-range indices take the last branch as well.
  return OrOp::create(b, loc, compare(0, ComparisonDirection::LT),
                      compare(last, ComparisonDirection::GE));
}

/// Makes host calls and loops of unknown length, which were inlined from
/// `first` on, conditional on their branch: on the values of another branch,
/// even a call without effects may fail, and neither may return.
void Unroller::guardCalls(Operation *op, int64_t branch, Operation *first) {
  Value condition;
  auto restrict = [&](OpBuilder &b, Value when) -> Value {
    if (!condition)
      condition = makeCondition(b, op, branch);
    if (!when)
      return condition;
    return stablehlo::AndOp::create(b, op->getLoc(), when, condition);
  };
  for (Operation *inner = first; inner != op; inner = inner->getNextNode()) {
    OpBuilder b(inner);
    if (auto call = dyn_cast<plan::InvokeOp>(inner))
      call.getWhenMutable().assign(restrict(b, call.getWhen()));
    auto loop = dyn_cast<plan::IterateOp>(inner);
    if (!loop || !loop.getCondition())
      continue;
    OpOperand &runs = loop.getCarriesMutable()[*loop.getCondition()];
    runs.set(restrict(b, runs.get()));
  }
}

/// Computes all branches and selects the results of one. Host calls in the
/// others are skipped.
MaybeValues Unroller::select(Operation *op) {
  Value index = op->getOperand(0);
  int64_t last = op->getNumRegions() - 1;
  MaybeValues chosen = failure();
  for (int64_t branch = last; branch >= 0; --branch) {
    Operation *before = op->getPrevNode();
    MaybeValues values = inlineBlock(op->getRegion(branch).front(), {}, op);
    if (failed(values))
      return failure();
    guardCalls(op, branch, before ? before->getNextNode() : &block.front());
    if (branch == last) { // also taken for out-of-range indices
      chosen = std::move(values);
      continue;
    }
    OpBuilder b(op);
    Value isThis = index;
    if (isa<stablehlo::CaseOp>(op)) {
      isThis = stablehlo::CompareOp::create(
          b, op->getLoc(), index,
          stablehlo::buildIndex(b, op->getLoc(), branch),
          stablehlo::ComparisonDirection::EQ);
      copyPhase(op, isThis.getDefiningOp());
    }
    for (auto [value, own] : llvm::zip(*chosen, *values)) {
      auto select =
          stablehlo::SelectOp::create(b, op->getLoc(), isThis, own, value);
      copyPhase(op, select);
      value = select;
    }
  }
  ++counts.selects;
  return chosen;
}

/// Folds an op, or replaces a loop or branch. Returns the values that replace
/// its results.
MaybeValues Unroller::resolve(Operation *op) {
  if (options.partly && stays(op))
    return SmallVector<Value>(op->getResults());
  MaybeValues values = SmallVector<Value>();
  if (auto loop = dyn_cast<stablehlo::WhileOp>(op))
    values = unroll(loop);
  else if (Block *branch = getBranch(op))
    values = inlineBlock(*branch, {}, op);
  else if (isa<stablehlo::CaseOp, stablehlo::IfOp>(op))
    values = select(op);
  else
    return folder.fold(op);
  if (failed(values))
    return failure();
  op->replaceAllUsesWith(*values);
  op->erase();
  return values;
}

LogicalResult Unroller::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(resolve(op)))
      return failure();
  // Erase dead readers of a stack, so that they do not end its chain.
  stablehlo::eraseDeadOps(block);
  counts.stacks = joinStacks(block, folder, options.joinPieces);
  stablehlo::eraseDeadOps(block);
  return success();
}

FailureOr<UnrollCounts> scalify::unrollLoops(Block &block,
                                             UnrollOptions options) {
  // Do not fold steps without loops: Import has canonicalized them.
  if (!options.partly && llvm::none_of(block, [](Operation &op) {
        return isa<stablehlo::WhileOp, stablehlo::CaseOp, stablehlo::IfOp>(op);
      }))
    return UnrollCounts();
  Unroller unroller(block, std::move(options));
  if (failed(unroller.run()))
    return failure();
  return unroller.counts;
}
