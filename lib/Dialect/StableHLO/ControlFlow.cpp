//===- ControlFlow.cpp - Data flow through loops and branches -------------===//

#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/Edits.h"

#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/Integers.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

bool stablehlo::isControlFlow(Operation *op) {
  return isa<WhileOp, CaseOp, IfOp, sdy::ManualComputationOp>(op);
}

bool stablehlo::isProgramCode(Operation *op) {
  Operation *parent = op->getParentOp();
  while (parent && isControlFlow(parent))
    parent = parent->getParentOp();
  return isa_and_nonnull<FunctionOpInterface>(parent);
}

bool stablehlo::isInvariantCarry(WhileOp loop, unsigned index) {
  Block &body = loop.getBody().front();
  return body.getTerminator()->getOperand(index) == body.getArgument(index);
}

Value stablehlo::getStackedUpdate(WhileOp loop, unsigned index) {
  Block &body = loop.getBody().front();
  BlockArgument arg = body.getArgument(index);
  auto update = body.getTerminator()
                    ->getOperand(index)
                    .getDefiningOp<DynamicUpdateSliceOp>();
  if (!update || update.getOperand() != arg || !arg.hasOneUse())
    return {};
  return update.getUpdate();
}

Operation *stablehlo::extendControlFlow(Operation *op, ValueRange operands,
                                        TypeRange types,
                                        OwningOpRef<Operation *> *replaced) {
  auto allOperands = llvm::to_vector(op->getOperands());
  auto allTypes = llvm::to_vector(op->getResultTypes());
  llvm::append_range(allOperands, operands);
  llvm::append_range(allTypes, types);
  Operation *clone = rebuildOp(op, allOperands, allTypes);
  op->replaceAllUsesWith(clone->getResults().take_front(op->getNumResults()));
  if (!replaced) {
    op->erase();
    return clone;
  }
  op->dropAllReferences();
  op->remove();
  *replaced = op;
  return clone;
}

static std::optional<int64_t> getConstant(Value value) {
  APInt constant;
  if (!matchPattern(lookThrough(value, Move::Invariant | Move::Manual),
                    m_ConstantInt(&constant)))
    return std::nullopt;
  if (hasUnsignedElements(value.getType()))
    constant = constant.zext(constant.getBitWidth() + 1);
  // Leaves room for arithmetic on bounds.
  if (constant.getSignificantBits() > 62)
    return std::nullopt;
  return constant.getSExtValue();
}

/// True if integers of the type can hold this number.
static bool holds(Type type, int64_t number) {
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (width >= 64)
    return true;
  return hasUnsignedElements(type)
             ? llvm::isUIntN(width, static_cast<uint64_t>(number))
             : llvm::isIntN(width, number);
}

std::optional<int64_t> stablehlo::getCarryStep(Value carry, Value next) {
  Operation *op = next.getDefiningOp();
  if (isa_and_nonnull<AddOp>(op)) {
    if (op->getOperand(0) == carry)
      return getConstant(op->getOperand(1));
    if (op->getOperand(1) == carry)
      return getConstant(op->getOperand(0));
  }
  if (isa_and_nonnull<SubtractOp>(op) && op->getOperand(0) == carry)
    if (std::optional<int64_t> step = getConstant(op->getOperand(1)))
      return -*step;
  return std::nullopt;
}

/// Returns the same comparison with its sides exchanged.
static ComparisonDirection mirror(ComparisonDirection direction) {
  switch (direction) {
  case ComparisonDirection::LT:
    return ComparisonDirection::GT;
  case ComparisonDirection::LE:
    return ComparisonDirection::GE;
  case ComparisonDirection::GT:
    return ComparisonDirection::LT;
  case ComparisonDirection::GE:
    return ComparisonDirection::LE;
  case ComparisonDirection::EQ:
  case ComparisonDirection::NE:
    return direction;
  }
  llvm_unreachable("unknown direction");
}

/// Returns the number of steps from `start` while the comparison with `limit`
/// holds.
static std::optional<int64_t> countSteps(int64_t start, int64_t step,
                                         int64_t limit,
                                         ComparisonDirection direction) {
  if (direction == ComparisonDirection::GT ||
      direction == ComparisonDirection::GE) {
    start = -start;
    step = -step;
    limit = -limit;
    direction = mirror(direction);
  }
  if (direction == ComparisonDirection::LE)
    ++limit;
  else if (direction != ComparisonDirection::LT)
    return std::nullopt;
  if (start >= limit)
    return 0;
  if (step <= 0)
    return std::nullopt;
  return (limit - start + step - 1) / step;
}

std::optional<int64_t> stablehlo::getTripCount(WhileOp loop) {
  Block &cond = loop.getCond().front();
  auto compare = cond.getTerminator()->getOperand(0).getDefiningOp<CompareOp>();
  if (!compare)
    return std::nullopt;
  Value counter = compare.getLhs(), limit = compare.getRhs();
  ComparisonDirection direction = compare.getComparisonDirection();
  if (!isa<BlockArgument>(counter) || getConstant(counter)) {
    std::swap(counter, limit);
    direction = mirror(direction);
  }
  auto arg = dyn_cast<BlockArgument>(counter);
  if (!arg || arg.getOwner() != &cond)
    return std::nullopt;
  unsigned index = arg.getArgNumber();
  std::optional<int64_t> start = getConstant(loop->getOperand(index));
  Block &body = loop.getBody().front();
  std::optional<int64_t> step = getCarryStep(
      body.getArgument(index), body.getTerminator()->getOperand(index));
  std::optional<int64_t> bound = getConstant(limit);
  if (!start || !step || !bound)
    return std::nullopt;
  std::optional<int64_t> count = countSteps(*start, *step, *bound, direction);
  // A counter that wraps around continues the loop.
  if (count && !holds(arg.getType(), *start + *count * *step))
    return std::nullopt;
  return count;
}

/// The most ops that are counted: products with it do not overflow.
static constexpr int64_t kMostOps = int64_t(1) << 40;

static int64_t countOps(Block &block) {
  int64_t count = 0;
  for (Operation &op : block.without_terminator()) {
    ++count;
    if (auto loop = dyn_cast<WhileOp>(op))
      count += countUnrolledOps(loop);
    else if (isControlFlow(&op))
      for (Region &region : op.getRegions())
        count += countOps(region.front());
    count = std::min(count, kMostOps);
  }
  return count;
}

int64_t stablehlo::countUnrolledOps(WhileOp loop) {
  int64_t ops = countOps(loop.getBody().front());
  int64_t trips = getTripCount(loop).value_or(1);
  return ops > 0 && trips > kMostOps / ops ? kMostOps : ops * trips;
}

SmallVector<Value> stablehlo::getFollowers(OpOperand &use) {
  Operation *user = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (auto loop = dyn_cast<WhileOp>(user))
    return {loop.getBody().getArgument(index)};
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(user))
    return {manual.getBody().getArgument(index)};
  if (!isa<ReturnOp, sdy::ReturnOp>(user))
    return SmallVector<Value>(user->getResults());
  Operation *parent = user->getParentOp();
  auto loop = dyn_cast<WhileOp>(parent);
  if (!loop)
    return isControlFlow(parent) ? SmallVector<Value>{parent->getResult(index)}
                                 : SmallVector<Value>{};
  if (user->getParentRegion() == &loop.getCond())
    return {};
  return {loop.getResult(index), loop.getBody().getArgument(index)};
}

SmallVector<Value> stablehlo::getSources(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  Operation *op =
      argument ? argument.getOwner()->getParentOp() : value.getDefiningOp();
  if (!isControlFlow(op))
    return argument ? SmallVector<Value>()
                    : SmallVector<Value>(op->getOperands());
  unsigned index = argument ? argument.getArgNumber()
                            : cast<OpResult>(value).getResultNumber();
  SmallVector<Value> sources;
  if (argument || isa<WhileOp>(op))
    sources.push_back(op->getOperand(index));
  if (auto loop = dyn_cast<WhileOp>(op))
    sources.push_back(
        loop.getBody().front().getTerminator()->getOperand(index));
  else if (!argument)
    for (Region &region : op->getRegions())
      sources.push_back(region.front().getTerminator()->getOperand(index));
  return sources;
}
