//===- FormCollectives.cpp - Collectives on dense memory ------------------===//
//
// Transports move dense memory. Where the parts are split along another
// dimension than the first, transposes make each part contiguous; the kernels
// around the collective absorb these.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Values.h"
#include "scalify/Fusion/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace scalify {
#define GEN_PASS_DEF_FORMCOLLECTIVES
#include "scalify/Fusion/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;
using plan::CollectiveKind;
using plan::Join;

/// Returns the reduction kind of a region; none if the region is not one op on
/// both elements.
static Join getJoin(Region &region) {
  Block &body = region.front();
  if (!llvm::hasSingleElement(body.without_terminator()))
    return Join::None;
  Operation &op = body.front();
  bool isOnBoth =
      op.getNumOperands() == 2 && op.getOperand(0) != op.getOperand(1) &&
      llvm::all_of(op.getOperands(),
                   [](Value value) { return isa<BlockArgument>(value); });
  if (!isOnBoth || body.getTerminator()->getOperand(0) != op.getResult(0))
    return Join::None;
  return TypeSwitch<Operation *, Join>(&op)
      .Case<AddOp>([](auto) { return Join::Sum; })
      .Case<MulOp>([](auto) { return Join::Product; })
      .Case<MaxOp>([](auto) { return Join::Max; })
      .Case<MinOp>([](auto) { return Join::Min; })
      .Case<AndOp>([](auto) { return Join::And; })
      .Case<OrOp>([](auto) { return Join::Or; })
      .Default([](Operation *) { return Join::None; });
}

namespace {
/// Builds one collective on dense memory.
class DenseCollective {
public:
  DenseCollective(Operation *op, DenseIntElementsAttr groups)
      : builder(op), loc(op->getLoc()), groups(groups),
        size(groups.getType().getDimSize(1)) {}

  Value allReduce(Value value, Join join);
  Value reduceScatter(Value value, int64_t dim, Join join);
  Value allGather(Value value, int64_t dim);
  Value allToAll(Value value, int64_t split, int64_t concat);
  Value permute(Value value);
  Value broadcast(Value value);

private:
  Value communicate(CollectiveKind kind, Join join, Value value,
                    ArrayRef<int64_t> shape);
  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value moveDim(Value value, int64_t from, int64_t to);
  Value cutToFront(Value value, int64_t dim);
  Value joinFromFront(Value value, int64_t dim);

  OpBuilder builder;
  Location loc;
  DenseIntElementsAttr groups;
  int64_t size; // of a group
};
} // namespace

Value DenseCollective::communicate(CollectiveKind kind, Join join, Value value,
                                   ArrayRef<int64_t> shape) {
  return plan::CommunicateOp::create(
      builder, loc,
      RankedTensorType::get(shape, typeOf(value).getElementType()), kind, join,
      value, groups);
}

Value DenseCollective::reshape(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return ReshapeOp::create(builder, loc, value, shape);
}

Value DenseCollective::moveDim(Value value, int64_t from, int64_t to) {
  if (from == to)
    return value;
  SmallVector<int64_t> order;
  for (int64_t dim = 0; dim < typeOf(value).getRank(); ++dim)
    if (dim != from)
      order.push_back(dim);
  order.insert(order.begin() + to, from);
  return TransposeOp::create(builder, loc, value, order);
}

/// Makes the parts along `dim` a new first dimension.
Value DenseCollective::cutToFront(Value value, int64_t dim) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= size;
  shape.insert(shape.begin() + dim, size);
  return moveDim(reshape(value, shape), dim, 0);
}

/// The inverse of cutToFront: concatenates the parts of the first dimension
/// along `dim`.
Value DenseCollective::joinFromFront(Value value, int64_t dim) {
  SmallVector<int64_t> shape(typeOf(value).getShape().drop_front());
  shape[dim] *= size;
  return reshape(moveDim(value, 0, dim), shape);
}

Value DenseCollective::allReduce(Value value, Join join) {
  return communicate(CollectiveKind::AllReduce, join, value,
                     typeOf(value).getShape());
}

Value DenseCollective::reduceScatter(Value value, int64_t dim, Join join) {
  Value parts = cutToFront(value, dim);
  return communicate(CollectiveKind::ReduceScatter, join, parts,
                     typeOf(parts).getShape().drop_front());
}

Value DenseCollective::allGather(Value value, int64_t dim) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape.insert(shape.begin(), size);
  return joinFromFront(
      communicate(CollectiveKind::AllGather, Join::None, value, shape), dim);
}

Value DenseCollective::allToAll(Value value, int64_t split, int64_t concat) {
  Value parts = cutToFront(value, split);
  return joinFromFront(communicate(CollectiveKind::AllToAll, Join::None, parts,
                                   typeOf(parts).getShape()),
                       concat);
}

Value DenseCollective::permute(Value value) {
  return communicate(CollectiveKind::Permute, Join::None, value,
                     typeOf(value).getShape());
}

Value DenseCollective::broadcast(Value value) {
  return communicate(CollectiveKind::Broadcast, Join::None, value,
                     typeOf(value).getShape());
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

static LogicalResult checkGroups(Operation *op, DenseIntElementsAttr groups) {
  if (llvm::is_contained(groups.getValues<int64_t>(), -1))
    return op->emitOpError("has groups of unequal size, which is not "
                           "supported; give each the same number of devices");
  return success();
}

static FailureOr<Join> findJoin(Operation *op, Region &region) {
  Join join = getJoin(region);
  if (join == Join::None)
    return op->emitOpError("reduces by other than a sum, product, maximum, "
                           "minimum, and, or of both elements");
  return join;
}

/// Replaces each result by `make` of the corresponding operand.
template <typename Make> static void replaceEach(Operation *op, Make make) {
  SmallVector<Value> values;
  for (Value operand : op->getOperands())
    values.push_back(make(operand));
  op->replaceAllUsesWith(values);
  op->erase();
}

static LogicalResult form(Operation *op) {
  bool isPermute = isa<CollectivePermuteOp>(op);
  auto groups = op->getAttrOfType<DenseIntElementsAttr>(
      isPermute ? "source_target_pairs" : "replica_groups");
  if (!isPermute && failed(checkGroups(op, groups)))
    return failure();
  FailureOr<Join> join =
      op->getNumRegions() ? findJoin(op, op->getRegion(0)) : Join::None;
  if (failed(join))
    return failure();
  DenseCollective dense(op, groups);
  replaceEach(op, [&](Value value) {
    return TypeSwitch<Operation *, Value>(op)
        .Case([&](AllReduceOp) { return dense.allReduce(value, *join); })
        .Case([&](ReduceScatterOp one) {
          auto dim = static_cast<int64_t>(one.getScatterDimension());
          return dense.reduceScatter(value, dim, *join);
        })
        .Case([&](AllGatherOp one) {
          auto dim = static_cast<int64_t>(one.getAllGatherDim());
          return dense.allGather(value, dim);
        })
        .Case([&](AllToAllOp one) {
          return dense.allToAll(value,
                                static_cast<int64_t>(one.getSplitDimension()),
                                static_cast<int64_t>(one.getConcatDimension()));
        })
        .Case([&](CollectivePermuteOp) { return dense.permute(value); })
        .Case([&](CollectiveBroadcastOp) { return dense.broadcast(value); })
        .Default([](Operation *) -> Value {
          llvm_unreachable("collected ops are these");
        });
  });
  return success();
}

namespace {
struct FormCollectivesPass
    : scalify::impl::FormCollectivesBase<FormCollectivesPass> {
  void runOnOperation() override {
    SmallVector<Operation *> collectives;
    getOperation().walk([&](Operation *op) {
      if (isCollective(op))
        collectives.push_back(op);
    });
    for (Operation *op : collectives)
      if (failed(form(op)))
        return signalPassFailure();
    numCollectives += collectives.size();
  }
};
} // namespace
