//===- SplitStacks.cpp - What collectives need of stacks, early -----------===//
//
// Once loops are unrolled, a collective of one layer needs one slice of a
// stack. What is computed between the two is computed of that slice alone, and
// both stand where the slice is there: not behind the last layer's.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Plan/Plan.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/Slices.h"
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

namespace {
class StackSplitter {
public:
  explicit StackSplitter(Block &block)
      : block(block), folder(block.front().getContext()) {}

  unsigned split();
  unsigned hoist();

private:
  void split(Operation *op);
  Value compute(Operation *op, int64_t slice);
  Operation *findAnchor(Operation *op, SmallVectorImpl<Operation *> &moved);

  Block &block;
  IndexFolder folder;
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
    if (Attribute phase = op->getAttr(kPhaseAttr))
      part->setAttr(kPhaseAttr, phase);
    map.map(operand, folder.fold(part).front());
  }
  Value result = builder.clone(*op, map)->getResult(0);
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

unsigned StackSplitter::split() {
  llvm::DenseSet<Value> stacks;
  SmallVector<Operation *> ops;
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
  unsigned count = 0;
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

unsigned StackSplitter::hoist() {
  unsigned count = 0;
  for (auto op :
       llvm::make_early_inc_range(block.getOps<plan::CommunicateOp>())) {
    SmallVector<Operation *> moved;
    Operation *anchor = findAnchor(op, moved);
    if (!anchor)
      continue;
    moved.push_back(op);
    for (Operation *one : moved) {
      one->moveAfter(anchor);
      anchor = one;
    }
    ++count;
  }
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
