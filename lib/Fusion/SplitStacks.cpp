//===- SplitStacks.cpp - What collectives need of stacks, early -----------===//
//
// Once loops are unrolled, a collective of one layer needs one slice of a
// stack. What is computed between the two is computed of that slice alone, and
// both stand where the slice is there: not behind the last layer's.
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
#include "mlir/IR/Matchers.h"

namespace scalify {
#define GEN_PASS_DEF_SPLITSTACKS
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The slice along the first dimension that an op reads, if it is one.
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

/// Whether a reduction over the slices of a stack joins, with the same bits,
/// what it makes of each.
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
  SmallVector<Operation *> ops; // that compute stacks of stacks, in order
  SmallVector<Operation *> reductions; // of a slice each, since they were split
};
} // namespace

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// What an op makes of one slice of its operands.
Value StackSplitter::compute(Operation *op, int64_t slice) {
  OpBuilder builder(op);
  IRMapping map;
  for (Value operand : op->getOperands()) {
    if (!isSliced(operand) || map.contains(operand))
      continue;
    SmallVector<int64_t> shape(typeOf(operand).getShape()), limits(shape),
        starts(shape.size(), 0), strides(shape.size(), 1);
    shape[0] = 1;
    starts[0] = slice;
    limits[0] = slice + 1;
    auto part =
        SliceOp::create(builder, op->getLoc(), typeOf(operand).clone(shape),
                        operand, starts, limits, strides);
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

/// A reduction of a stack of which something else reads slices, as a
/// collective does, would keep it whole.
unsigned StackSplitter::splitReductions() {
  // Stacks of which slices are read, by themselves or by what is computed.
  llvm::DenseSet<Value> sliced;
  for (Value stack : stacks)
    if (llvm::any_of(stack.getUsers(), getSlice))
      sliced.insert(stack);
  for (Operation *op : llvm::reverse(ops))
    if (sliced.contains(op->getResult(0)))
      for (Value operand : op->getOperands())
        if (stacks.contains(operand))
          sliced.insert(operand);
  // And what is computed of such stacks.
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
  // Readers first: what only they read is read by slices then.
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

/// What is done to what a collective sends.
static bool isPacking(Operation *op) {
  return isa<SliceOp, ConcatenateOp, ReshapeOp, TransposeOp, PadOp,
             BroadcastInDimOp, ConstantOp>(op) ||
         keepsSlices(op);
}

/// The last op of those that a collective needs and that are computed where
/// they are; null where it needs what another collective brings, or nothing.
/// The others are moved behind it, in order.
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
  // One kernel may cast a slice and reduce it, and would stand behind both.
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
