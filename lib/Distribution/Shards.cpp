//===- Shards.cpp - Elementwise values in shares --------------------------===//

#include "Shards.h"
#include "Layouts.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// Returns the type with `sizes` in place of all dimensions after the slices.
static RankedTensorType makeType(ArrayRef<int64_t> slices,
                                 ArrayRef<int64_t> sizes, Type element) {
  SmallVector<int64_t> shape(slices);
  llvm::append_range(shape, sizes);
  return RankedTensorType::get(shape, element);
}

static int64_t lastSize(RankedTensorType type) {
  return type.getShape().back();
}

//===----------------------------------------------------------------------===//
// The group
//===----------------------------------------------------------------------===//

ShareGroup::ShareGroup(const DeviceMesh &mesh, ArrayRef<sdy::AxisRefAttr> axes)
    : mesh(mesh), axes(axes), groups(mesh.getGroups(axes)),
      numRanks(mesh.getNumParts(axes)) {}

int64_t ShareGroup::getShare(int64_t elements) const {
  int64_t chunk = getChunkSize(elements);
  int64_t chunks = llvm::divideCeil(elements, chunk);
  return static_cast<int64_t>(llvm::divideCeil(chunks, numRanks)) * chunk;
}

Value ShareGroup::getPlace(OpBuilder &builder, Location loc) const {
  SmallVector<int32_t> places;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    places.push_back(static_cast<int32_t>(mesh.getPlace(device, axes)));
  return lookUp(builder, loc, places, mesh.getNumDevices());
}

//===----------------------------------------------------------------------===//
// Types of shares
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> Shards::slicesOf(RankedTensorType type) const {
  return getSlices(stacks, type);
}

RankedTensorType Shards::getShareType(RankedTensorType type) const {
  ArrayRef<int64_t> slices = slicesOf(type);
  int64_t each = type.getNumElements() / llvm::product_of(slices);
  return makeType(slices, {group.getShare(each)}, type.getElementType());
}

RankedTensorType Shards::getPaddedType(RankedTensorType type) const {
  SmallVector<int64_t> shape(getShareType(type).getShape());
  shape.back() *= group.size();
  return type.clone(shape);
}

bool Shards::hasSameSlices(Value a, Value b) const {
  return slicesOf(typeOf(a)) == slicesOf(typeOf(b));
}

//===----------------------------------------------------------------------===//
// Values that can be computed in shares
//===----------------------------------------------------------------------===//

static bool isScalar(Value value) { return typeOf(value).getRank() == 0; }

static bool isSplat(Value value) {
  return matchPattern(value, m_Constant()) &&
         isa<SplatElementsAttr>(
             cast<ConstantOp>(value.getDefiningOp()).getValue());
}

static bool isScalarBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  return broadcast && countOf(broadcast.getOperand()) == 1;
}

/// True for elementwise ops on scalars and on values of the result's shape.
static bool isShapedElementwise(Operation *op) {
  return op && op->getNumResults() == 1 && isElementwiseOp(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isScalar(operand) || typeOf(operand).getShape() ==
                                           typeOf(op->getResult(0)).getShape();
         });
}

bool scalify::movesElements(Operation *op) {
  if (isa_and_present<ReshapeOp, TransposeOp>(op))
    return true;
  // hasNeutralInit accepts any initial value of a maximum, which may exceed the
  // element: only sums keep it.
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return reduce && reduce.getInputs().size() == 1 && hasNeutralInit(reduce) &&
         isa<AddOp>(reduce.getBody().front().front()) &&
         countOf(reduce.getInputs()[0]) == countOf(reduce->getResult(0));
}

Value scalify::stripMoves(Value value) {
  while (movesElements(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

bool Shards::isSum(Value value) const {
  auto reduce = stripMoves(value).getDefiningOp<AllReduceOp>();
  return reduce && reduce.getOperands().size() == 1 &&
         reduce.getReplicaGroups() == group.getGroups();
}

bool Shards::isShared(Value value) const {
  if (shares.contains(value) || isScalar(value) || isSplat(value) ||
      isScalarBroadcast(value) || isSum(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (auto reshape = dyn_cast_or_null<ReshapeOp>(op))
    return hasSameSlices(value, reshape.getOperand()) &&
           isShared(reshape.getOperand());
  return isShapedElementwise(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value one) { return isShared(one); });
}

/// True if computing the value reads a share. Otherwise slicing the value is
/// cheaper than computing it again.
bool Shards::readsShare(Value value) {
  if (shares.contains(value) || isSum(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!isShapedElementwise(op))
    return isa_and_present<ReshapeOp>(op) &&
           hasSameSlices(value, op->getOperand(0)) &&
           readsShare(op->getOperand(0));
  auto [place, isNew] = reads.try_emplace(value, false);
  if (!isNew)
    return place->second;
  bool found = llvm::any_of(op->getOperands(), [&](Value operand) {
    return !isScalar(operand) && readsShare(operand);
  });
  return reads[value] = found;
}

bool Shards::isZeroInPadding(Value value) const {
  // Kept state does not count: an update, such as Adafactor's, may write there.
  Operation *op = value.getDefiningOp();
  if (isSum(value))
    return true;
  if (isa_and_present<ReshapeOp, ConvertOp, AbsOp, NegOp, SignOp, SqrtOp>(op))
    return isZeroInPadding(op->getOperand(0));
  // A product with one zero operand may be NaN: both must be zero.
  if (isa_and_present<MulOp, AddOp, SubtractOp>(op))
    return isZeroInPadding(op->getOperand(0)) &&
           isZeroInPadding(op->getOperand(1));
  return false;
}

//===----------------------------------------------------------------------===//
// Shares
//===----------------------------------------------------------------------===//

Value Shards::get(Value value) {
  if (isScalar(value))
    return value;
  if (Value known = shares.lookup(value))
    return known;
  Value share = make(value);
  shares[value] = share;
  return share;
}

Value Shards::make(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return cut(value);
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  RankedTensorType type = getShareType(typeOf(value));
  if (isSplat(value)) {
    auto splat = cast<SplatElementsAttr>(cast<ConstantOp>(op).getValue());
    return ConstantOp::create(builder, op->getLoc(), splat.resizeSplat(type));
  }
  if (isScalarBroadcast(value)) {
    Value scalar = op->getOperand(0);
    if (!isScalar(scalar))
      scalar = ReshapeOp::create(
          builder, op->getLoc(),
          RankedTensorType::get({}, typeOf(scalar).getElementType()), scalar);
    return BroadcastInDimOp::create(builder, op->getLoc(), type, scalar,
                                    ArrayRef<int64_t>());
  }
  if (isSum(value))
    return reduceScatter(value);
  if (auto reshape = dyn_cast<ReshapeOp>(op);
      reshape && hasSameSlices(value, reshape.getOperand()))
    return get(reshape.getOperand());
  return readsShare(value) ? onShares(op) : cut(value);
}

Value Shards::onShares(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  IRMapping map;
  map.map(op->getOperands(), operands);
  Operation *share = builder.clone(*op, map);
  Value result = share->getResult(0);
  result.setType(getShareType(typeOf(result)));
  return result;
}

/// Flattens a value, or each slice of a stack, and pads it with zeros to equal
/// shares.
Value Shards::fill(OpBuilder &builder, Location loc, Value value) {
  RankedTensorType type = typeOf(value);
  Value filled = padSlices(builder, loc, value, slicesOf(type),
                           lastSize(getPaddedType(type)));
  if (auto pad = filled.getDefiningOp<PadOp>(); pad && filled != value)
    pad->setAttr(kSharePaddingAttr, builder.getUnitAttr());
  return filled;
}

Value Shards::cut(Value value) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Location loc = value.getLoc();
  RankedTensorType type = getShareType(typeOf(value));
  auto number = [&](int64_t number) -> Value {
    return buildIndex(builder, loc, number);
  };
  SmallVector<Value> starts;
  if (type.getRank() > 1)
    starts.push_back(number(0));
  starts.push_back(MulOp::create(builder, loc, group.getPlace(builder, loc),
                                 number(lastSize(type))));
  return DynamicSliceOp::create(builder, loc, type, fill(builder, loc, value),
                                starts,
                                builder.getDenseI64ArrayAttr(type.getShape()));
}

/// Applies the moves to each rank's operand, and then reduce-scatters it.
Value Shards::reduceScatter(Value sum) {
  auto op = stripMoves(sum).getDefiningOp<AllReduceOp>();
  OpBuilder builder(op);
  SmallVector<Operation *> moves;
  for (Value at = sum; movesElements(at.getDefiningOp());
       at = at.getDefiningOp()->getOperand(0))
    moves.push_back(at.getDefiningOp());
  Value value = op.getOperands()[0];
  for (Operation *move : llvm::reverse(moves)) {
    IRMapping map;
    map.map(move->getOperand(0), value);
    auto type = cast<RankedTensorType>(move->getResult(0).getType());
    if (isa<TransposeOp>(move))
      value = builder.clone(*move, map)->getResult(0);
    else
      value = ReshapeOp::create(builder, op.getLoc(), type, value);
  }
  RankedTensorType type = getShareType(typeOf(value));
  auto scatter = ReduceScatterOp::create(
      builder, op.getLoc(), type, fill(builder, op.getLoc(), value),
      type.getRank() - 1, group.getGroups(),
      ChannelHandleAttr::get(builder.getContext(), ++numChannels, 1),
      /*use_global_device_ids=*/true);
  IRMapping map;
  op.getComputation().cloneInto(&scatter.getComputation(), map);
  return scatter.getResult();
}

/// All-gathers the last dimension and slices its first `size` elements: the
/// padding of the last part depends on the number of ranks.
Value Shards::gatherLast(OpBuilder &builder, Location loc, Value part,
                         int64_t size) {
  SmallVector<int64_t> shape(typeOf(part).getShape());
  int64_t last = typeOf(part).getRank() - 1;
  shape.back() *= group.size();
  Value all =
      AllGatherOp::create(
          builder, loc, TypeRange{typeOf(part).clone(shape)}, ValueRange{part},
          last, group.getGroups(),
          ChannelHandleAttr::get(builder.getContext(), ++numChannels, 1),
          /*use_global_device_ids=*/true)
          .getResult(0);
  if (shape.back() == size)
    return all;
  shape.back() = size;
  return SliceOp::create(builder, loc, all, shape);
}

Value Shards::gather(OpBuilder &builder, Location loc, Value share,
                     RankedTensorType type) {
  int64_t each = type.getNumElements() / llvm::product_of(slicesOf(type));
  return ReshapeOp::create(builder, loc, type,
                           gatherLast(builder, loc, share, each));
}

Value Shards::sum(ReduceOp reduce) {
  Value value = reduce.getInputs()[0], init = reduce.getInitValues()[0];
  OpBuilder builder(reduce);
  Location loc = reduce.getLoc();
  ArrayRef<int64_t> slices = slicesOf(typeOf(value));
  int64_t each = countOf(value) / llvm::product_of(slices);
  int64_t chunk = getChunkSize(each);
  Value share = get(value);
  builder.setInsertionPoint(reduce);
  int64_t own = lastSize(typeOf(share)) / chunk;
  auto rank = static_cast<int64_t>(slices.size());
  Value chunks = ReshapeOp::create(
      builder, loc,
      makeType(slices, {own, chunk}, typeOf(value).getElementType()), share);
  Value sums = buildReduce<AddOp>(builder, loc, chunks, init, {rank + 1});
  Value all = gatherLast(builder, loc, sums,
                         static_cast<int64_t>(llvm::divideCeil(each, chunk)));
  Value sum =
      buildReduce<AddOp>(builder, loc, all, init,
                         llvm::to_vector(llvm::seq<int64_t>(0, rank + 1)));
  sum.getDefiningOp()->setAttr(kChunkSumsAttr, builder.getUnitAttr());
  return sum;
}
