//===- SliceCollectives.cpp - Split collectives of stacked layers ---------===//
//
// Each slice of a stack can be summed or all-gathered by itself. So the sums of
// one iteration of a loop over layers overlap with the next iteration, and the
// all-gathers of a layer's weights with the layers before it.
//
//===----------------------------------------------------------------------===//

#include "NarrowMoves.h"
#include "Pieces.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/Scalify/Slices.h"
#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace scalify {
#define GEN_PASS_DEF_SLICECOLLECTIVESPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// True if a collective acts on each slice of the first dimension separately.
static bool actsOnSlices(Operation *op) {
  if (op->getNumOperands() != 1 || typeOf(op->getOperand(0)).getRank() < 2 ||
      typeOf(op->getOperand(0)).getDimSize(0) < 2)
    return false;
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    return scatter.getScatterDimension() == 1;
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return gather.getAllGatherDim() == 1;
  return isa<AllReduceOp>(op);
}

namespace {
/// Builds the ops that replace collectives of stacks.
class Slicer {
public:
  Slicer(Operation *before, Operation *like)
      : builder(before), loc(like->getLoc()), like(like) {}

  /// Builds the collective of one slice of the operand.
  Value exchange(Operation *op, int64_t slice);
  /// Builds a stack of values of one slice each.
  Value stack(ArrayRef<Value> slices, RankedTensorType type);
  /// Builds the collective on the flattened array, which can be bucketed.
  Value exchangeAll(Operation *op);

private:
  template <typename Op, typename... Args> Value create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    copyPhase(like, op);
    return op->getResult(0);
  }
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return create<ReshapeOp>(value, shape);
  }
  Value swap(Value value, int64_t rows, int64_t columns);
  Value clone(Operation *op, Value operand, RankedTensorType type);

  OpBuilder builder;
  Location loc;
  Operation *like;
};
} // namespace

/// Clones `op` for another operand, along the first dimension.
Value Slicer::clone(Operation *op, Value operand, RankedTensorType type) {
  IRMapping map;
  map.map(op->getOperand(0), operand);
  Operation *copy = builder.clone(*op, map);
  copy->getResult(0).setType(type);
  if (auto scatter = dyn_cast<ReduceScatterOp>(copy))
    scatter.setScatterDimension(0);
  if (auto gather = dyn_cast<AllGatherOp>(copy))
    gather.setAllGatherDim(0);
  return copy->getResult(0);
}

Value Slicer::exchange(Operation *op, int64_t slice) {
  Value value = op->getOperand(0);
  Value own = create<SliceOp>(value, 0, slice, slice + 1);
  auto type = typeOf(op->getResult(0));
  SmallVector<int64_t> result(type.getShape());
  result[0] = 1;
  if (isa<AllReduceOp>(op))
    return clone(op, own, type.clone(result));
  Value row = clone(op, reshape(own, {typeOf(value).getDimSize(1)}),
                    type.clone({result[1]}));
  return reshape(row, result);
}

/// Builds a chain of updates, which is how loops write stacks.
Value Slicer::stack(ArrayRef<Value> slices, RankedTensorType type) {
  Value all = create<ConstantOp>(cast<ElementsAttr>(builder.getZeroAttr(type)));
  auto number = [&](size_t number) {
    return create<ConstantOp>(DenseElementsAttr::get(
        RankedTensorType::get({}, builder.getI32Type()),
        builder.getI32IntegerAttr(static_cast<int32_t>(number))));
  };
  Value zero = number(0);
  for (auto [slice, value] : llvm::enumerate(slices)) {
    SmallVector<Value> starts(type.getRank(), zero);
    starts[0] = number(slice);
    all = create<DynamicUpdateSliceOp>(type, all, value, starts);
  }
  return all;
}

/// Swaps the first two dimensions, and flattens the result.
Value Slicer::swap(Value value, int64_t rows, int64_t columns) {
  int64_t rest = typeOf(value).getNumElements() / rows / columns;
  value = reshape(value, {rows, columns, rest});
  value = create<TransposeOp>(typeOf(value).clone({columns, rows, rest}), value,
                              builder.getDenseI64ArrayAttr({1, 0, 2}));
  return reshape(value, {rows * columns * rest});
}

Value Slicer::exchangeAll(Operation *op) {
  Value value = op->getOperand(0);
  RankedTensorType type = typeOf(op->getResult(0));
  int64_t slices = type.getDimSize(0);
  int64_t ranks = op->getAttrOfType<DenseIntElementsAttr>("replica_groups")
                      .getType()
                      .getDimSize(1);
  RankedTensorType row = type.clone({type.getNumElements()});
  if (isa<ReduceScatterOp>(op))
    value = clone(op, swap(value, slices, ranks), row);
  else
    value =
        swap(clone(op, reshape(value, {typeOf(value).getNumElements()}), row),
             ranks, slices);
  return reshape(value, type.getShape());
}

//===----------------------------------------------------------------------===//
// Choosing collectives
//===----------------------------------------------------------------------===//

/// True if a loop reads the value, or slicewise results computed from it.
static bool isReadByLoop(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<WhileOp>(user) ||
           (keepsSlices(user) && isReadByLoop(user->getResult(0)));
  });
}

namespace {
/// Collectives of stacks that the same loop writes, or that loops read.
using Group = SmallVector<Operation *>;

struct SliceCollectivesPass
    : scalify::impl::SliceCollectivesPassBase<SliceCollectivesPass> {
  using SliceCollectivesPassBase::SliceCollectivesPassBase;

  /// Builds the first slice of all arrays, then the second of all, and so on.
  void slice(ArrayRef<Operation *> group, OpBuilder builder, bool isReversed) {
    // The anchor must be an op that hoist() does not move.
    Operation *before =
        buildZero(builder, group.front()->getLoc(), builder.getI1Type());
    llvm::MapVector<Operation *, SmallVector<Value>> slices;
    int64_t most = 0;
    for (Operation *op : group) {
      int64_t count = typeOf(op->getOperand(0)).getDimSize(0);
      slices[op].resize(count);
      most = std::max(most, count);
      op->getOpOperand(0).set(hoist(op->getOperand(0), before));
    }
    for (int64_t step = 0; step < most; ++step)
      for (Operation *op : group) {
        auto count = static_cast<int64_t>(slices[op].size());
        int64_t at = isReversed ? count - 1 - step : step;
        if (at >= 0 && at < count)
          slices[op][at] = Slicer(before, op).exchange(op, at);
      }
    for (auto &[op, values] : slices)
      op->getResult(0).replaceAllUsesWith(
          Slicer(before, op).stack(values, typeOf(op->getResult(0))));
    for (Operation *op : group)
      op->erase();
    before->erase();
    numSliced += group.size();
  }

  void runOnSums(Block &block) {
    llvm::MapVector<Operation *, Group> groups; // by the loop that makes them
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa<ReduceScatterOp, AllReduceOp>(op) || !actsOnSlices(&op))
        continue;
      WhileOp loop = findStackingLoop(op.getOperand(0));
      if (loop && loop->getBlock() == &block &&
          canHoist(op.getOperand(0), loop->getNextNode())) {
        groups[loop].push_back(&op);
        continue;
      }
      if (loop)
        op.emitRemark("covers all layers and runs after their loop: it needs a "
                      "value computed there, such as a scale measured of all");
      if (isa<ReduceScatterOp>(op))
        flattenCollective(&op);
    }
    for (auto &[loop, group] : groups)
      slice(group, OpBuilder(loop->getNextNode()),
            isWrittenInReverse(cast<WhileOp>(loop)));
  }

  void runOnGathers(Block &block) {
    Group group;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa<AllGatherOp>(op) || !actsOnSlices(&op))
        continue;
      if (!isReadByLoop(op.getResult(0))) {
        flattenCollective(&op);
        continue;
      }
      if (!group.empty() && !canHoist(op.getOperand(0), group.front())) {
        slice(group, OpBuilder(group.front()), /*isReversed=*/false);
        group.clear();
      }
      group.push_back(&op);
    }
    if (!group.empty())
      slice(group, OpBuilder(group.front()), /*isReversed=*/false);
  }

  void flattenCollective(Operation *op) {
    op->getResult(0).replaceAllUsesWith(Slicer(op, op).exchangeAll(op));
    op->erase();
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    Block &block = main.getBody().front();
    if (gathers)
      return runOnGathers(block);
    // Loop bodies, for sums of each micro-batch.
    SmallVector<Block *> bodies;
    main.walk([&](WhileOp loop) { bodies.push_back(&loop.getBody().front()); });
    for (Block *body : bodies)
      runOnSums(*body);
    runOnSums(block);
  }
};
} // namespace
