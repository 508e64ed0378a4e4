//===- ValueOrigin.cpp - Origins of values, through loops -----------------===//

#include "scalify/Precision/ValueOrigin.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Dialect/StableHLO/StageBorders.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;
using stablehlo::WhileOp;

/// Returns the operand whose data the result holds, or null.
static Value getDataOf(OpResult result) {
  Operation *op = result.getOwner();
  if (Value moved = getMoved(result, Move::Cast | Move::Layout | Move::Reverse |
                                         Move::Slice))
    return moved;
  // A move between ranks only selects another part of a value, as a slice does.
  if (stablehlo::isPlainBarrier(op) ||
      isa<stablehlo::AllGatherOp, stablehlo::AllToAllOp,
          stablehlo::CollectivePermuteOp>(op))
    return op->getOperand(result.getResultNumber());
  // Adds unit dimensions, as before an update of a stack.
  if (auto broadcast = dyn_cast<stablehlo::BroadcastInDimOp>(op)) {
    Value operand = broadcast->getOperand(0);
    if (cast<ShapedType>(operand.getType()).getNumElements() ==
        cast<ShapedType>(result.getType()).getNumElements())
      return operand;
  }
  return {};
}

static Value getReturned(Region &region, unsigned index) {
  return region.front().getTerminator()->getOperand(index);
}

Value scalify::getOrigin(Value value) {
  while (true) {
    Value next = lookThrough(value, Move::Invariant | Move::Manual);
    if (auto result = dyn_cast<OpResult>(next)) {
      unsigned index = result.getResultNumber();
      if (Value moved = getDataOf(result))
        next = moved;
      else if (auto loop = dyn_cast<WhileOp>(result.getOwner())) {
        if (stablehlo::isInvariantCarry(loop, index))
          next = loop->getOperand(index);
        else if (Value update = stablehlo::getStackedUpdate(loop, index))
          next = update;
      }
    }
    if (next == value)
      return value;
    value = next;
  }
}

static bool isParameter(BlockArgument arg) {
  return isOneOf(getRoleAttr(arg), {Role::Param, Role::Master});
}

/// True if the op is of the update and computes its result element by element,
/// or assembles it from pieces.
static bool updates(Operation *op) {
  return getPhase(op) == Phase::Optimizer && op->getNumResults() == 1 &&
         (op->hasTrait<OpTrait::Elementwise>() ||
          op->hasTrait<stablehlo::OpTrait::TernaryElementwise>() ||
          isa<stablehlo::DynamicUpdateSliceOp, stablehlo::ConcatenateOp>(op));
}

/// True if an update within control flow computes the result.
static bool isUpdatedWithin(OpResult result) {
  Operation *op = result.getOwner();
  return llvm::any_of(op->getRegions(), [&](Region &region) {
    Operation *end = region.front().getTerminator();
    if (result.getResultNumber() >= end->getNumOperands())
      return false; // The condition of a loop.
    Value made = getOrigin(end->getOperand(result.getResultNumber()));
    Operation *maker = made.getDefiningOp();
    return maker && maker->getParentRegion() == &region &&
           (stablehlo::isControlFlow(maker)
                ? isUpdatedWithin(cast<OpResult>(made))
                : updates(maker));
  });
}

/// Returns the parameter whose new value an update computed from its old one,
/// perhaps in several steps or in a loop: the nearest one of that shape from
/// which `updated` is computed.
static Value getUpdatedParameter(Value updated) {
  llvm::SetVector<Value> behind;
  behind.insert(updated);
  ArrayRef<int64_t> shape = cast<ShapedType>(updated.getType()).getShape();
  constexpr size_t kMaxVisited = 4096;
  for (size_t i = 0; i < behind.size() && i < kMaxVisited; ++i) {
    Value value = behind[i];
    auto arg = dyn_cast<BlockArgument>(value);
    Operation *op = arg ? arg.getOwner()->getParentOp() : value.getDefiningOp();
    if (arg && isa<FunctionOpInterface>(op)) {
      if (isParameter(arg))
        return arg;
      continue;
    }
    if (!stablehlo::isControlFlow(op) && !updates(op))
      continue;
    for (Value source : stablehlo::getSources(value)) {
      source = getOrigin(source);
      if (cast<ShapedType>(source.getType()).getShape() == shape)
        behind.insert(source);
    }
  }
  return {};
}

Value scalify::getStepArgument(Value value) {
  value = getOrigin(value);
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    if (isa<FunctionOpInterface>(arg.getOwner()->getParentOp()))
      return arg;
    auto loop = dyn_cast<WhileOp>(arg.getOwner()->getParentOp());
    if (!loop)
      return {};
    Value start = getStepArgument(loop->getOperand(arg.getArgNumber()));
    return start && isParameter(cast<BlockArgument>(start)) ? start : Value();
  }
  Operation *op = value.getDefiningOp();
  bool isUpdate = stablehlo::isControlFlow(op)
                      ? isUpdatedWithin(cast<OpResult>(value))
                      : updates(op);
  return isUpdate ? getUpdatedParameter(value) : Value();
}

Value scalify::getWeight(Value value) {
  auto arg = dyn_cast_or_null<BlockArgument>(getStepArgument(value));
  if (!arg)
    return {};
  return isOneOf(getRoleAttr(arg), Role::Batch) ? Value() : arg;
}

/// True if the value is computed from weights and constants alone; adds the
/// weights to `weights`. Visits at most `budget` ops.
static bool collectWeights(Value value, unsigned &budget,
                           llvm::SetVector<Value> &weights) {
  value = getOrigin(value);
  if (Value weight = getWeight(value)) {
    weights.insert(weight);
    return getRoleAttr(weight) != nullptr;
  }
  Operation *op = value.getDefiningOp();
  if (!op || stablehlo::isControlFlow(op) || budget == 0)
    return false;
  --budget;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return collectWeights(operand, budget, weights);
  });
}

SmallVector<Value> scalify::getSourceWeights(Value value) {
  unsigned budget = 64;
  llvm::SetVector<Value> weights;
  if (!collectWeights(value, budget, weights))
    return {};
  return weights.takeVector();
}

bool scalify::isComputedFromWeights(Value value) {
  unsigned budget = 64;
  llvm::SetVector<Value> weights;
  return collectWeights(value, budget, weights);
}

static bool isComputedInBackward(Value value, DenseSet<Value> &seen) {
  // A parameter that a loop updates is no gradient, though computed from some.
  if (!seen.insert(value).second || getStepArgument(value))
    return false;
  value = lookThrough(value, Move::Invariant | Move::Manual);
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<WhileOp>(arg.getOwner()->getParentOp());
    unsigned index = arg.getArgNumber();
    return loop &&
           (isComputedInBackward(loop->getOperand(index), seen) ||
            isComputedInBackward(getReturned(loop.getBody(), index), seen));
  }
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (op->hasTrait<OpTrait::ConstantLike>())
    return false;
  if (Value moved = getDataOf(result))
    return isComputedInBackward(moved, seen);
  unsigned index = result.getResultNumber();
  if (auto loop = dyn_cast<WhileOp>(op))
    return isComputedInBackward(loop->getOperand(index), seen) ||
           isComputedInBackward(getReturned(loop.getBody(), index), seen);
  if (stablehlo::isControlFlow(op))
    return llvm::any_of(op->getRegions(), [&](Region &region) {
      return isComputedInBackward(getReturned(region, index), seen);
    });
  if (auto update = dyn_cast<stablehlo::DynamicUpdateSliceOp>(op))
    return isComputedInBackward(update.getOperand(), seen) ||
           isComputedInBackward(update.getUpdate(), seen);
  return getPhase(op) == Phase::Backward;
}

bool scalify::isGradient(Value value) {
  DenseSet<Value> seen;
  return isComputedInBackward(value, seen);
}
