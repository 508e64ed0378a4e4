//===- SplitStacks.cpp - Ops on stacks, split by slices -------------------===//
//
// Once loops are unrolled, the collective of one layer needs one slice of a
// stack. The ops between the stack and the collective are computed on that
// slice alone, and both are hoisted to the producer of the slice, instead of
// following that of the last layer.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Scalify/Slices.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Fusion/Passes.h"
#include "scalify/Import/StaticIndices.h"

#include "mlir/IR/IRMapping.h"

namespace scalify {
#define GEN_PASS_DEF_SPLITSTACKS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// If `user` slices one element of the first dimension, returns its index.
static std::optional<int64_t> getSlice(Operation *user) {
  auto op = dyn_cast<SliceOp>(user);
  if (!op)
    return std::nullopt;
  ArrayRef<int64_t> from = typeOf(op.getOperand()).getShape();
  ArrayRef<int64_t> to = typeOf(op.getResult()).getShape();
  if (to.front() != 1 || from.drop_front() != to.drop_front())
    return std::nullopt;
  return op.getStartIndices().front();
}

/// True if a reduction of a stack equals, bit for bit, the combination of the
/// reductions of its slices.
static bool joinsSlices(ReduceOp reduce) {
  return isOrderFree(reduce) && isSliced(reduce->getOperand(0)) &&
         llvm::is_contained(reduce.getDimensions(), 0);
}

namespace {
class StackSplitter {
public:
  explicit StackSplitter(Block &block)
      : block(block), folder(block.front().getContext()) {}

  unsigned split();
  unsigned hoist();

private:
  void findStacks();
  unsigned splitReductions();
  void split(ReduceOp reduce);
  void hoist(Operation *op, unsigned &count);
  void split(Operation *op);
  Value compute(Operation *op, int64_t slice);
  Operation *findAnchor(Operation *op, SmallVectorImpl<Operation *> &moved);

  Block &block;
  IndexFolder folder;
  llvm::DenseSet<Value> stacks;
  SmallVector<Operation *> ops; // that compute stacks from stacks, in order
  SmallVector<Operation *> reductions; // of single slices, from split ones
};
} // namespace

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Builds the op on one slice of its operands.
Value StackSplitter::compute(Operation *op, int64_t slice) {
  OpBuilder builder(op);
  IRMapping map;
  for (Value operand : op->getOperands()) {
    if (!isSliced(operand) || map.contains(operand))
      continue;
    auto part =
        SliceOp::create(builder, op->getLoc(), operand, 0, slice, slice + 1);
    copyPhase(op, part);
    map.map(operand, folder.fold(part).front());
  }
  Value result = builder.clone(*op, map)->getResult(0);
  if (isa<ReduceOp>(op))
    return result;
  SmallVector<int64_t> shape(typeOf(result).getShape());
  shape[0] = 1;
  result.setType(typeOf(result).clone(shape));
  return result;
}

void StackSplitter::split(Operation *op) {
  llvm::DenseMap<int64_t, Value> slices;
  for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
    int64_t at = *getSlice(user);
    Value &slice = slices[at];
    if (!slice)
      slice = compute(op, at);
    user->getResult(0).replaceAllUsesWith(slice);
    user->erase();
  }
  op->erase();
}

void StackSplitter::findStacks() {
  for (Operation &op : block) {
    auto joined = dyn_cast<ConcatenateOp>(op);
    bool isStack =
        (joined && joined.getDimension() == 0 &&
         joined->getNumOperands() > 1) ||
        (keepsSlices(&op) && llvm::any_of(op.getOperands(), [&](Value operand) {
           return stacks.contains(operand);
         }));
    if (!isStack)
      continue;
    stacks.insert(op.getResult(0));
    if (!joined)
      ops.push_back(&op);
  }
}

void StackSplitter::split(ReduceOp reduce) {
  OpBuilder builder(reduce);
  Operation &joiner = reduce.getBody().front().front();
  Value all;
  for (int64_t i = 0, end = typeOf(reduce->getOperand(0)).getDimSize(0);
       i != end; ++i) {
    Value own = compute(reduce, i);
    reductions.push_back(own.getDefiningOp());
    if (all) {
      IRMapping map;
      map.map(joiner.getOperand(0), all);
      map.map(joiner.getOperand(1), own);
      Operation *join = builder.clone(joiner, map);
      join->getResult(0).setType(own.getType());
      own = join->getResult(0);
    }
    all = own;
  }
  reduce->getResult(0).replaceAllUsesWith(all);
  reduce.erase();
}

/// Splits reductions of stacks of which other ops, such as collectives, read
/// slices: such a reduction would keep the stack whole.
unsigned StackSplitter::splitReductions() {
  // Stacks of which slices are read, directly or through other stacks.
  llvm::DenseSet<Value> sliced;
  for (Value stack : stacks)
    if (llvm::any_of(stack.getUsers(), getSlice))
      sliced.insert(stack);
  for (Operation *op : llvm::reverse(ops))
    if (sliced.contains(op->getResult(0)))
      for (Value operand : op->getOperands())
        if (stacks.contains(operand))
          sliced.insert(operand);
  // And stacks computed from these.
  for (Operation *op : ops)
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return sliced.contains(operand); }))
      sliced.insert(op->getResult(0));
  unsigned count = 0;
  for (auto reduce : llvm::make_early_inc_range(block.getOps<ReduceOp>()))
    if (sliced.contains(reduce->getOperand(0)) && joinsSlices(reduce)) {
      split(reduce);
      ++count;
    }
  return count;
}

unsigned StackSplitter::split() {
  findStacks();
  unsigned count = splitReductions();
  // Users first: afterwards, their operands are read by slices, too.
  for (Operation *op : llvm::reverse(ops)) {
    if (op->use_empty() || !llvm::all_of(op->getUsers(), getSlice))
      continue;
    split(op);
    ++count;
  }
  return count;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// True for ops that cast, move or pack the source of a collective.
static bool isPacking(Operation *op) {
  return isa<SliceOp, ConcatenateOp, ReshapeOp, TransposeOp, PadOp,
             BroadcastInDimOp, ConstantOp>(op) ||
         keepsSlices(op);
}

/// Returns the last op that a collective depends on and that is not packing;
/// null if there is none, or if it depends on another collective. Sets `moved`
/// to the packing ops after it, in order, which move with the collective.
Operation *StackSplitter::findAnchor(Operation *op,
                                     SmallVectorImpl<Operation *> &moved) {
  Operation *anchor = nullptr;
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Operation *> next = {op};
  while (!next.empty())
    for (Value operand : next.pop_back_val()->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (!def || !seen.insert(def).second)
        continue;
      if (isa<plan::CommunicateOp>(def))
        return nullptr;
      if (isPacking(def)) {
        moved.push_back(def);
        next.push_back(def);
      } else if (!anchor || anchor->isBeforeInBlock(def)) {
        anchor = def;
      }
    }
  if (!anchor)
    return nullptr;
  llvm::erase_if(moved,
                 [&](Operation *one) { return one->isBeforeInBlock(anchor); });
  llvm::sort(moved,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return anchor;
}

void StackSplitter::hoist(Operation *op, unsigned &count) {
  SmallVector<Operation *> moved;
  Operation *anchor = findAnchor(op, moved);
  if (!anchor)
    return;
  moved.push_back(op);
  for (Operation *one : moved) {
    one->moveAfter(anchor);
    anchor = one;
  }
  ++count;
}

unsigned StackSplitter::hoist() {
  unsigned count = 0, numReductions = 0;
  // Also hoist reductions: a kernel that casts a slice and reduces it comes
  // after both ops, and would delay the cast that the collective reads.
  for (Operation *op : reductions)
    hoist(op, numReductions);
  for (auto op :
       llvm::make_early_inc_range(block.getOps<plan::CommunicateOp>()))
    hoist(op, count);
  return count;
}

namespace {
struct SplitStacksPass : scalify::impl::SplitStacksBase<SplitStacksPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return;
    Block &block = function.getBody().front();
    if (block.getOps<plan::CommunicateOp>().empty())
      return;
    StackSplitter splitter(block);
    numSplit += splitter.split();
    numMoved += splitter.hoist();
  }
};
} // namespace
