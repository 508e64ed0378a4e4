//===- LocalPlaces.cpp - Slices, gathers and scatters on shards -----------===//
//
// A slice must cover a sharded dimension in full. Gathers and scatters whose
// slices have one element along it may have any index: indices become relative
// to the device's shard. A scatter drops indices outside the shard. A gather
// reads zeros for them, and its result is a partial sum.

#include "LocalRule.h"

#include "scalify/Dialect/StableHLO/Reductions.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

LogicalResult LocalRule::on(DynamicSliceOp slice) {
  Value operand = slice.getOperand();
  SmallVector<int64_t> sizes(slice.getSliceSizes());
  for (int64_t dim = 0; dim < rankOf(operand); ++dim) {
    bool isAll = sizes[dim] == wholeSize(operand, dim);
    if (failed(isAll ? requireSameSharding(operand, dim, slice.getResult(), dim)
                     : requireUnsharded(operand, dim)))
      return failure();
    if (isAll)
      sizes[dim] = localSize(operand, dim);
  }
  slice.setSliceSizes(sizes);
  return success();
}

LogicalResult LocalRule::on(DynamicUpdateSliceOp update) {
  Value operand = update.getOperand(), part = update.getUpdate();
  for (int64_t dim = 0; dim < rankOf(operand); ++dim) {
    bool isAll = wholeSize(part, dim) == wholeSize(operand, dim);
    if (failed(isAll ? requireSameSharding(operand, dim, part, dim)
                     : requireUnsharded(operand, dim)) ||
        (!isAll && failed(requireUnsharded(part, dim))) ||
        failed(requireSameSharding(operand, dim, update.getResult(), dim)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Indices into shards
//===----------------------------------------------------------------------===//

SmallVector<sdy::AxisRefAttr> LocalRule::getAxes(Value value,
                                                 ArrayRef<int64_t> dims) const {
  SmallVector<sdy::AxisRefAttr> axes;
  for (int64_t dim : dims)
    llvm::append_range(axes, layouts.getAxes(value, dim));
  return axes;
}

Value LocalRule::broadcastComponents(const Indices &indices, Value numbers) {
  SmallVector<int64_t> along;
  if (indices.isVector())
    along.push_back(indices.vectorDim);
  auto type = cast<RankedTensorType>(indices.value.getType())
                  .clone(getElementTypeOrSelf(numbers));
  return BroadcastInDimOp::create(builder, op->getLoc(), type, numbers, along);
}

Value LocalRule::buildPerComponent(const Indices &indices,
                                   ArrayRef<int64_t> numbers) {
  Type element = getElementTypeOrSelf(indices.value);
  unsigned width = element.getIntOrFloatBitWidth();
  SmallVector<APInt> values;
  for (int64_t number : numbers)
    values.emplace_back(width, number);
  SmallVector<int64_t> shape;
  if (indices.isVector())
    shape.push_back(static_cast<int64_t>(numbers.size()));
  Value constant = buildConstant(builder, op->getLoc(),
                                 RankedTensorType::get(shape, element), values);
  return broadcastComponents(indices, constant);
}

/// Widens indices so that they can hold the offsets of all shards.
Value LocalRule::widen(Value indices) {
  if (getElementTypeOrSelf(indices).getIntOrFloatBitWidth() >= 32)
    return indices;
  auto type = cast<RankedTensorType>(indices.getType());
  return ConvertOp::create(builder, op->getLoc(),
                           type.clone(builder.getI32Type()), indices);
}

Value LocalRule::shift(const Indices &indices) {
  const DeviceMesh &mesh = layouts.getMesh();
  SmallVector<int32_t> starts;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    for (int64_t dim : indices.dims)
      starts.push_back(
          mesh.getPlace(device, layouts.getAxes(indices.into, dim)) *
          localSize(indices.into, dim));
  Value start = lookUp(builder, op->getLoc(), starts, mesh.getNumDevices(),
                       /*isScalar=*/!indices.isVector());
  start = ConvertOp::create(builder, op->getLoc(),
                            cast<RankedTensorType>(start.getType())
                                .clone(getElementTypeOrSelf(indices.value)),
                            start);
  return SubtractOp::create(builder, op->getLoc(), indices.value,
                            broadcastComponents(indices, start));
}

Value LocalRule::buildInShardMask(const Indices &indices, Value shifted) {
  SmallVector<int64_t> first(indices.dims.size()), last;
  for (int64_t dim : indices.dims)
    last.push_back(localSize(indices.into, dim) - 1);
  Location loc = op->getLoc();
  Value inside = AndOp::create(
      builder, loc,
      CompareOp::create(builder, loc, shifted,
                        buildPerComponent(indices, first),
                        ComparisonDirection::GE),
      CompareOp::create(builder, loc, shifted, buildPerComponent(indices, last),
                        ComparisonDirection::LE));
  if (!indices.isVector())
    return inside;
  auto scalar = RankedTensorType::get({}, builder.getI1Type());
  Value yes = buildConstant(builder, loc, scalar, builder.getBoolAttr(true));
  return buildReduce<AndOp>(builder, loc, inside, yes, {indices.vectorDim});
}

/// Returns the dimensions of a tensor of `rank` that are not in a list.
static SmallVector<int64_t> others(int64_t rank, ArrayRef<int64_t> list) {
  SmallVector<int64_t> rest;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(list, dim))
      rest.push_back(dim);
  return rest;
}

/// Gathers the elements in the device's shard, and zeros for all others.
void LocalRule::gatherFromPart(GatherOp gather, const Indices &indices) {
  // The gather clamps indices to the bounds of the whole value.
  SmallVector<int64_t> last;
  for (int64_t dim : indices.dims)
    last.push_back(wholeSize(indices.into, dim) - 1);
  SmallVector<int64_t> zeros(indices.dims.size());
  Location loc = op->getLoc();
  Indices clamped = indices;
  clamped.value =
      ClampOp::create(builder, loc, buildPerComponent(indices, zeros),
                      indices.value, buildPerComponent(indices, last));
  Value shifted = shift(clamped);
  gather.getStartIndicesMutable().assign(shifted);
  Value inside = buildInShardMask(clamped, shifted);
  builder.setInsertionPointAfter(op);
  Value result = gather.getResult();
  RankedTensorType type = layouts.getLocal(result);
  inside = BroadcastInDimOp::create(
      builder, loc, type.clone(builder.getI1Type()), inside,
      others(type.getRank(), gather.getDimensionNumbers().getOffsetDims()));
  Value zero = buildZeros(builder, loc, type);
  Value part = SelectOp::create(builder, loc, type, inside, result, zero);
  layouts.replace(result, part);
}

LogicalResult LocalRule::on(GatherOp gather) {
  Value operand = gather.getOperand(), indices = gather.getStartIndices();
  Value result = gather.getResult();
  GatherDimensionNumbersAttr dims = gather.getDimensionNumbers();
  SmallVector<int64_t> sizes(gather.getSliceSizes());
  SmallVector<int64_t> dropped(dims.getCollapsedSliceDims());
  llvm::append_range(dropped, dims.getOperandBatchingDims());
  for (int64_t dim : dims.getCollapsedSliceDims())
    if (!llvm::is_contained(dims.getStartIndexMap(), dim) &&
        failed(requireUnsharded(operand, dim)))
      return failure();
  for (auto [window, offset] :
       llvm::zip(others(rankOf(operand), dropped), dims.getOffsetDims())) {
    bool isAll = sizes[window] == wholeSize(operand, window);
    if (failed(isAll ? requireSameSharding(operand, window, result, offset)
                     : requireUnsharded(operand, window)))
      return failure();
    if (isAll)
      sizes[window] = localSize(operand, window);
  }
  for (auto [from, with] : llvm::zip(dims.getOperandBatchingDims(),
                                     dims.getStartIndicesBatchingDims()))
    if (failed(requireSameSharding(operand, from, indices, with)))
      return failure();
  for (auto [from, to] :
       llvm::zip(others(rankOf(indices), {dims.getIndexVectorDim()}),
                 others(rankOf(result), dims.getOffsetDims())))
    if (failed(requireSameSharding(indices, from, result, to)))
      return failure();
  gather.setSliceSizes(sizes);
  SmallVector<sdy::AxisRefAttr> axes =
      getAxes(operand, dims.getCollapsedSliceDims());
  if (axes.empty())
    return success();
  for (int64_t dim : dims.getStartIndexMap())
    if (!llvm::is_contained(dims.getCollapsedSliceDims(), dim) &&
        failed(requireUnsharded(operand, dim)))
      return failure();
  if (failed(makePartial(result, axes)))
    return failure();
  gatherFromPart(gather, {widen(indices), dims.getIndexVectorDim(), operand,
                          dims.getStartIndexMap()});
  return success();
}

/// Makes one device's partial result start from the operand, and those of the
/// other devices from zeros, so that the sum contains the operand once.
LogicalResult LocalRule::keepOperandOnFirstDevice(ScatterOp scatter,
                                                  Axes axes) {
  Block &body = scatter.getUpdateComputation().front();
  if (scatter.getInputs().size() != 1 || !isa<AddOp>(body.front()) ||
      !llvm::hasSingleElement(body.without_terminator()))
    return op->emitOpError("combines updates of several devices by an op other "
                           "than a sum, which is not supported; constrain its "
                           "indices with jax.lax.with_sharding_constraint");
  SmallVector<int32_t> isOther;
  const DeviceMesh &mesh = layouts.getMesh();
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    isOther.push_back(mesh.getPlace(device, axes) != 0);
  Location loc = op->getLoc();
  Value input = scatter.getInputs()[0];
  RankedTensorType type = layouts.getLocal(input);
  Value zero = buildIndex(builder, loc, 0);
  Value isFirst = CompareOp::create(
      builder, loc, lookUp(builder, loc, isOther, mesh.getNumDevices()), zero,
      ComparisonDirection::EQ);
  Value zeros = buildZeros(builder, loc, type);
  isFirst = BroadcastInDimOp::create(
      builder, loc, RankedTensorType::get(type.getShape(), builder.getI1Type()),
      isFirst, ArrayRef<int64_t>());
  Value start = SelectOp::create(builder, loc, type, isFirst, input, zeros);
  scatter.getInputsMutable().assign(start);
  return success();
}

LogicalResult LocalRule::on(ScatterOp scatter) {
  ScatterDimensionNumbersAttr dims = scatter.getScatterDimensionNumbers();
  Value indices = scatter.getScatterIndices();
  SmallVector<sdy::AxisRefAttr> partial;
  SmallVector<int64_t> dropped(dims.getInsertedWindowDims());
  llvm::append_range(dropped, dims.getInputBatchingDims());
  for (auto [input, update, result] : llvm::zip(
           scatter.getInputs(), scatter.getUpdates(), scatter.getResults())) {
    // Only slices of one element may start anywhere along a sharded dimension.
    for (int64_t dim = 0; dim < rankOf(input); ++dim)
      if (llvm::is_contained(dims.getInsertedWindowDims(), dim) !=
              llvm::is_contained(dims.getScatterDimsToOperandDims(), dim) &&
          failed(requireUnsharded(input, dim)))
        return failure();
    if (failed(requireSameSharding(input, result)))
      return failure();
    for (auto [window, from] :
         llvm::zip(others(rankOf(input), dropped), dims.getUpdateWindowDims()))
      if (failed(wholeSize(update, from) == wholeSize(input, window)
                     ? requireSameSharding(update, from, input, window)
                     : requireUnsharded(input, window)) ||
          (wholeSize(update, from) != wholeSize(input, window) &&
           failed(requireUnsharded(update, from))))
        return failure();
    partial.clear();
    for (auto [with, from] :
         llvm::zip(others(rankOf(indices), {dims.getIndexVectorDim()}),
                   others(rankOf(update), dims.getUpdateWindowDims()))) {
      if (failed(requireSameSharding(indices, with, update, from)))
        return failure();
      if (!llvm::is_contained(dims.getScatterIndicesBatchingDims(), with))
        llvm::append_range(partial, layouts.getAxes(update, from));
    }
  }
  for (auto [dim, with] : llvm::zip(dims.getInputBatchingDims(),
                                    dims.getScatterIndicesBatchingDims()))
    if (failed(requireSameSharding(scatter.getInputs()[0], dim, indices, with)))
      return failure();
  Value input = scatter.getInputs()[0];
  if (!getAxes(input, dims.getInsertedWindowDims()).empty())
    scatter.getScatterIndicesMutable().assign(
        shift({widen(indices), dims.getIndexVectorDim(), input,
               dims.getScatterDimsToOperandDims()}));
  if (partial.empty())
    return success();
  if (failed(makePartial(scatter.getResults()[0], partial)))
    return failure();
  return keepOperandOnFirstDevice(scatter, partial);
}
