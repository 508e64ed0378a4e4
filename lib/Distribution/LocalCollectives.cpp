//===- LocalCollectives.cpp - Lower sdy collectives -----------------------===//
//
// A collective is lowered dimension by dimension, over replica groups in shard
// order, so that a gather is a concatenation and a scatter takes slices.
// all_slice, which needs no data of other devices, is a slice at an offset that
// depends on the device.
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace scalify;

namespace {

/// Builds stablehlo collectives at an op.
class CollectiveBuilder {
public:
  CollectiveBuilder(Operation *op, const Layouts &layouts, int64_t &numChannels)
      : builder(op), loc(op->getLoc()), mesh(layouts.getMesh()),
        numChannels(numChannels) {}

  Value allReduce(Value value, Axes axes);
  Value reduceScatter(Value value, int64_t dim, Axes axes);
  Value allGather(Value value, int64_t dim, Axes axes);
  Value allToAll(Value value, int64_t split, int64_t concat, Axes axes);
  Value permute(Value value, ArrayRef<int64_t> sourceOf);

private:
  /// Returns a new channel; its type makes ids those of all devices.
  stablehlo::ChannelHandleAttr nextChannel() {
    return stablehlo::ChannelHandleAttr::get(builder.getContext(),
                                             ++numChannels, /*type=*/1);
  }
  /// Returns the type of a value with another size of one dimension.
  static RankedTensorType resized(Value value, int64_t dim, int64_t size) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = size;
    return RankedTensorType::get(shape, type.getElementType());
  }
  static int64_t sizeOf(Value value, int64_t dim) {
    return cast<RankedTensorType>(value.getType()).getDimSize(dim);
  }
  void addReducer(Region &region, Value partial);

  OpBuilder builder;
  Location loc;
  const DeviceMesh &mesh;
  int64_t &numChannels;
};

} // namespace

/// Returns the region that reduces partial results, or null.
static Region *getReducer(Operation *maker) {
  if (auto reduce = dyn_cast_or_null<stablehlo::ReduceOp>(maker))
    return &reduce.getBody();
  if (auto scatter = dyn_cast_or_null<stablehlo::ScatterOp>(maker))
    return &scatter.getUpdateComputation();
  if (auto reduce = dyn_cast_or_null<stablehlo::AllReduceOp>(maker))
    return &reduce.getComputation();
  if (auto reduce = dyn_cast_or_null<stablehlo::ReduceScatterOp>(maker))
    return &reduce.getComputation();
  return nullptr;
}

/// Fills `region` with the reduction of the op that made the partial results,
/// since sdy collectives have none: a sum if that op has no region.
void CollectiveBuilder::addReducer(Region &region, Value partial) {
  if (Region *reducer = getReducer(partial.getDefiningOp())) {
    IRMapping mapping;
    reducer->cloneInto(&region, mapping);
    return;
  }
  stablehlo::buildReducer<stablehlo::AddOp>(builder, loc, region,
                                            getElementTypeOrSelf(partial));
}

Value CollectiveBuilder::allReduce(Value value, Axes axes) {
  auto op = stablehlo::AllReduceOp::create(builder, loc, value.getType(), value,
                                           mesh.getGroups(axes), nextChannel(),
                                           /*use_global_device_ids=*/true);
  addReducer(op.getComputation(), value);
  return op->getResult(0);
}

Value CollectiveBuilder::reduceScatter(Value value, int64_t dim, Axes axes) {
  auto type = resized(value, dim, sizeOf(value, dim) / mesh.getNumParts(axes));
  auto op = stablehlo::ReduceScatterOp::create(
      builder, loc, type, value, dim, mesh.getGroups(axes), nextChannel(),
      /*use_global_device_ids=*/true);
  addReducer(op.getComputation(), value);
  return op.getResult();
}

Value CollectiveBuilder::allGather(Value value, int64_t dim, Axes axes) {
  Type type = resized(value, dim, sizeOf(value, dim) * mesh.getNumParts(axes));
  return stablehlo::AllGatherOp::create(builder, loc, type, value, dim,
                                        mesh.getGroups(axes), nextChannel(),
                                        /*use_global_device_ids=*/true)
      ->getResult(0);
}

Value CollectiveBuilder::allToAll(Value value, int64_t split, int64_t concat,
                                  Axes axes) {
  int64_t parts = mesh.getNumParts(axes);
  auto type = resized(value, split, sizeOf(value, split) / parts);
  SmallVector<int64_t> shape(type.getShape());
  shape[concat] *= parts;
  Type result = RankedTensorType::get(shape, type.getElementType());
  return stablehlo::AllToAllOp::create(builder, loc, result, value, split,
                                       concat, parts, mesh.getGroups(axes),
                                       nextChannel())
      ->getResult(0);
}

Value CollectiveBuilder::permute(Value value, ArrayRef<int64_t> sourceOf) {
  SmallVector<int64_t> pairs;
  for (auto [target, source] : llvm::enumerate(sourceOf))
    pairs.append({source, static_cast<int64_t>(target)});
  auto type = RankedTensorType::get({static_cast<int64_t>(sourceOf.size()), 2},
                                    builder.getI64Type());
  return stablehlo::CollectivePermuteOp::create(
      builder, loc, value.getType(), value,
      DenseIntElementsAttr::get(type, pairs), nextChannel());
}

/// Returns for each device the source of its data when shards are permuted. Of
/// replicas each is the source of one device.
static SmallVector<int64_t> getSources(const DeviceMesh &mesh, Value from,
                                       Value to, const Layouts &layouts) {
  auto partOf = [&](Value value, int64_t device) {
    SmallVector<int64_t> part;
    for (int64_t dim = 0; dim < layouts.getWhole(value).getRank(); ++dim)
      part.push_back(mesh.getPlace(device, layouts.getAxes(value, dim)));
    return part;
  };
  SmallVector<int64_t> sources;
  SmallVector<bool> isTaken(mesh.getNumDevices());
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    SmallVector<int64_t> wanted = partOf(to, device);
    int64_t source = 0;
    while (isTaken[source] || partOf(from, source) != wanted)
      ++source;
    isTaken[source] = true;
    sources.push_back(source);
  }
  return sources;
}

Value scalify::sliceShard(OpBuilder &builder, Location loc, Value whole,
                          RankedTensorType local,
                          function_ref<Axes(int64_t)> axesOf,
                          const DeviceMesh &mesh) {
  SmallVector<Value> starts;
  for (int64_t dim = 0; dim < local.getRank(); ++dim) {
    SmallVector<int32_t> perDevice;
    for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
      perDevice.push_back(mesh.getPlace(device, axesOf(dim)) *
                          local.getDimSize(dim));
    starts.push_back(lookUp(builder, loc, perDevice, mesh.getNumDevices()));
  }
  return stablehlo::DynamicSliceOp::create(
      builder, loc, local, whole, starts,
      builder.getDenseI64ArrayAttr(local.getShape()));
}

bool scalify::isCollective(Operation *op) {
  return isa<sdy::AllReduceOp, sdy::ReduceScatterOp, sdy::AllGatherOp,
             sdy::AllSliceOp, sdy::AllToAllOp, sdy::CollectivePermuteOp>(op);
}

/// Returns the axes over which a collective reduces; empty for others.
static SmallVector<sdy::AxisRefAttr> getReducedAxes(Operation *op) {
  SmallVector<sdy::AxisRefAttr> joined;
  if (auto reduce = dyn_cast<sdy::AllReduceOp>(op))
    llvm::append_range(joined, reduce.getReductionAxes().getAxes());
  if (auto scatter = dyn_cast<sdy::ReduceScatterOp>(op))
    for (sdy::AxisRefListAttr axes : scatter.getReduceScatterAxes().getDims())
      llvm::append_range(joined, axes.getAxes());
  return joined;
}

/// Returns the axes still to be reduced after a collective. Fails if it reduces
/// over other axes, or moves partial results.
static FailureOr<Digits> getRemainingPartial(Operation *op,
                                             const Layouts &layouts) {
  Digits left = layouts.getPartial(op->getOperand(0));
  SmallVector<sdy::AxisRefAttr> joined = getReducedAxes(op);
  if (!left.empty() && joined.empty())
    return op->emitOpError("moves partial results that are not reduced");
  for (auto digit : layouts.getMesh().getDigits(joined)) {
    auto *found = llvm::find(left, digit);
    if (found == left.end())
      return op->emitOpError("reduces over axes along which its operand is "
                             "not a partial result");
    left.erase(found);
  }
  return left;
}

LogicalResult scalify::localizeCollective(Operation *op, Layouts &layouts,
                                          int64_t &numChannels) {
  const DeviceMesh &mesh = layouts.getMesh();
  FailureOr<Digits> left = getRemainingPartial(op, layouts);
  if (failed(left))
    return failure();
  CollectiveBuilder builder(op, layouts, numChannels);
  Value value = op->getOperand(0), result = op->getResult(0);
  using sdy::AxisRefListAttr;
  if (auto reduce = dyn_cast<sdy::AllReduceOp>(op)) {
    value = builder.allReduce(value, reduce.getReductionAxes().getAxes());
  } else if (auto scatter = dyn_cast<sdy::ReduceScatterOp>(op)) {
    for (auto [dim, axes] :
         llvm::enumerate(scatter.getReduceScatterAxes().getDims()))
      if (!axes.getAxes().empty())
        value = builder.reduceScatter(value, dim, axes.getAxes());
  } else if (auto gather = dyn_cast<sdy::AllGatherOp>(op)) {
    for (auto [dim, axes] :
         llvm::enumerate(gather.getGatheringAxes().getDims()))
      if (!axes.getAxes().empty())
        value = builder.allGather(value, dim, axes.getAxes());
  } else if (auto slice = dyn_cast<sdy::AllSliceOp>(op)) {
    OpBuilder here(op);
    ArrayRef<AxisRefListAttr> dims = slice.getSlicingAxes().getDims();
    value = sliceShard(
        here, op->getLoc(), value, layouts.getLocal(result),
        [&](int64_t dim) { return dims[dim].getAxes(); }, mesh);
  } else if (auto exchange = dyn_cast<sdy::AllToAllOp>(op)) {
    for (sdy::AllToAllParamAttr move : exchange.getParams().getParams())
      value = builder.allToAll(value, move.getTargetDim(), move.getSourceDim(),
                               move.getAxes());
  } else if (value.getType() == layouts.getLocal(result)) {
    value = builder.permute(
        value, getSources(mesh, op->getOperand(0), result, layouts));
  }
  if (value.getType() != layouts.getLocal(result))
    return op->emitOpError()
           << "gives the local type " << value.getType()
           << ", but its sharding requires " << layouts.getLocal(result);
  layouts.replace(result, value);
  layouts.setPartial(value, std::move(*left));
  op->erase();
  return success();
}
