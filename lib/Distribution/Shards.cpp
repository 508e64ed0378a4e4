//===- Shards.cpp - Elementwise values on one rank's share ----------------===//

#include "Shards.h"
#include "Layouts.h"

#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// A sum's chunks: the largest, and how many there are at least if they are
/// smaller, so that many ranks can have as many each.
static constexpr int64_t kMostChunk = 4096, kLeastChunks = 64;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t countOf(Value value) { return typeOf(value).getNumElements(); }

static RankedTensorType listOf(int64_t size, Type element) {
  return RankedTensorType::get({size}, element);
}

int64_t scalify::getChunk(int64_t elements) {
  auto wanted = static_cast<uint64_t>(
      std::clamp<int64_t>(elements / kLeastChunks, 1, kMostChunk));
  return static_cast<int64_t>(llvm::bit_floor(wanted));
}

//===----------------------------------------------------------------------===//
// The group
//===----------------------------------------------------------------------===//

ShareGroup::ShareGroup(const DeviceMesh &mesh, ArrayRef<sdy::AxisRefAttr> axes)
    : mesh(mesh), axes(axes), groups(mesh.getGroups(axes)),
      numRanks(mesh.getNumParts(axes)) {}

int64_t ShareGroup::getShare(int64_t elements) const {
  int64_t chunk = getChunk(elements);
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
// What can be done on shares
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

/// An elementwise op on values of its result's shape, and on scalars.
static bool isOnElements(Operation *op) {
  return op && op->getNumResults() == 1 && isElementwiseOp(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return isScalar(operand) || typeOf(operand).getShape() ==
                                           typeOf(op->getResult(0)).getShape();
         });
}

/// An op that gives the elements of its operand in another order, or a sum
/// along dimensions of one element.
static bool isMove(Operation *op) {
  if (isa_and_present<ReshapeOp, TransposeOp>(op))
    return true;
  // A maximum is neutral to join twice, but not with any first value.
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return reduce && reduce.getInputs().size() == 1 && hasNeutralInit(reduce) &&
         isa<AddOp>(reduce.getBody().front().front()) &&
         countOf(reduce.getInputs()[0]) == countOf(reduce->getResult(0));
}

Value scalify::stripMoves(Value value) {
  while (isMove(value.getDefiningOp()))
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
    return isShared(reshape.getOperand());
  return isOnElements(op) && llvm::all_of(op->getOperands(), [&](Value one) {
           return isShared(one);
         });
}

/// Whether a share is read in computing the value: what none is read in is
/// cheaper cut than done again.
bool Shards::readsShare(Value value) {
  if (shares.contains(value) || isSum(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!isOnElements(op))
    return isa_and_present<ReshapeOp>(op) && readsShare(op->getOperand(0));
  auto [place, isNew] = reads.try_emplace(value, false);
  if (!isNew)
    return place->second;
  bool found = llvm::any_of(op->getOperands(), [&](Value operand) {
    return !isScalar(operand) && readsShare(operand);
  });
  return reads[value] = found;
}

bool Shards::isZeroInPadding(Value value) const {
  // Not of what is kept: an update may write there, as that of Adafactor does.
  Operation *op = value.getDefiningOp();
  if (isSum(value))
    return true;
  if (isa_and_present<ReshapeOp, ConvertOp, AbsOp, NegOp, SignOp, SqrtOp>(op))
    return isZeroInPadding(op->getOperand(0));
  // Of what may be infinite a product with zero is no zero: both are.
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
  auto type =
      listOf(group.getShare(countOf(value)), typeOf(value).getElementType());
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
  if (auto reshape = dyn_cast<ReshapeOp>(op))
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
  result.setType(
      listOf(group.getShare(countOf(result)), typeOf(result).getElementType()));
  return result;
}

/// All elements in a row, filled up with zeros to equal shares.
Value Shards::fill(OpBuilder &builder, Location loc, Value value) {
  int64_t count = countOf(value), filled = group.getShare(count) * group.size();
  Type element = typeOf(value).getElementType();
  Value flat = ReshapeOp::create(builder, loc, listOf(count, element), value);
  if (filled == count)
    return flat;
  Value zero = ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(RankedTensorType::get({}, element),
                             builder.getZeroAttr(element)));
  return PadOp::create(builder, loc, listOf(filled, element), flat, zero,
                       builder.getDenseI64ArrayAttr({0}),
                       builder.getDenseI64ArrayAttr({filled - count}),
                       builder.getDenseI64ArrayAttr({0}));
}

Value Shards::cut(Value value) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Location loc = value.getLoc();
  int64_t share = group.getShare(countOf(value));
  Type i32 = builder.getI32Type();
  Value size = ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          RankedTensorType::get({}, i32),
          builder.getI32IntegerAttr(static_cast<int32_t>(share))));
  Value start = MulOp::create(builder, loc, group.getPlace(builder, loc), size);
  return DynamicSliceOp::create(builder, loc,
                                listOf(share, typeOf(value).getElementType()),
                                fill(builder, loc, value), ValueRange{start},
                                builder.getDenseI64ArrayAttr({share}));
}

/// What each rank has is moved, and then summed.
Value Shards::reduceScatter(Value sum) {
  auto op = stripMoves(sum).getDefiningOp<AllReduceOp>();
  OpBuilder builder(op);
  SmallVector<Operation *> moves;
  for (Value at = sum; isMove(at.getDefiningOp());
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
  auto scatter = ReduceScatterOp::create(
      builder, op.getLoc(),
      listOf(group.getShare(countOf(value)), typeOf(value).getElementType()),
      fill(builder, op.getLoc(), value), 0, group.getGroups(),
      ChannelHandleAttr::get(builder.getContext(), ++numChannels, 1),
      /*use_global_device_ids=*/true);
  IRMapping map;
  op.getComputation().cloneInto(&scatter.getComputation(), map);
  return scatter.getResult();
}

Value Shards::gather(OpBuilder &builder, Location loc, Value share,
                     RankedTensorType type) {
  Type element = type.getElementType();
  int64_t filled = countOf(share) * group.size(), count = type.getNumElements();
  Value all =
      AllGatherOp::create(
          builder, loc, TypeRange{listOf(filled, element)}, ValueRange{share},
          0, group.getGroups(),
          ChannelHandleAttr::get(builder.getContext(), ++numChannels, 1),
          /*use_global_device_ids=*/true)
          .getResult(0);
  if (filled != count)
    all = SliceOp::create(builder, loc, listOf(count, element), all,
                          builder.getDenseI64ArrayAttr({0}),
                          builder.getDenseI64ArrayAttr({count}),
                          builder.getDenseI64ArrayAttr({1}));
  return ReshapeOp::create(builder, loc, type, all);
}

Value Shards::sum(ReduceOp reduce) {
  Value value = reduce.getInputs()[0], init = reduce.getInitValues()[0];
  OpBuilder builder(reduce);
  Location loc = reduce.getLoc();
  int64_t count = countOf(value), chunk = getChunk(count);
  Type element = typeOf(value).getElementType();
  Value share = get(value);
  builder.setInsertionPoint(reduce);
  int64_t own = countOf(share) / chunk;
  Value rows = ReshapeOp::create(
      builder, loc, RankedTensorType::get({own, chunk}, element), share);
  Value sums = buildReduce<AddOp>(builder, loc, rows, init, {1});
  Value all = gather(builder, loc, sums, listOf(own * group.size(), element));
  // Chunks that are padding alone: how many there are depends on the ranks.
  auto chunks = static_cast<int64_t>(llvm::divideCeil(count, chunk));
  if (chunks != countOf(all))
    all = SliceOp::create(builder, loc, listOf(chunks, element), all,
                          builder.getDenseI64ArrayAttr({0}),
                          builder.getDenseI64ArrayAttr({chunks}),
                          builder.getDenseI64ArrayAttr({1}));
  return buildReduce<AddOp>(builder, loc, all, init, {0});
}
