//===- PieceSums.cpp - Sums over ranks, a piece per rank ------------------===//
//
// Sends no more bytes than a ring, and one rank computes each sum, in an order
// and a format that the program determines.
//
//===----------------------------------------------------------------------===//

#include "PieceSums.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Reductions.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

PieceSums::PieceSums(Operation *op, SumParts sumParts)
    : sumParts(sumParts), builder(op), loc(op->getLoc()),
      groups(op->getAttrOfType<DenseIntElementsAttr>("replica_groups")),
      channel(op->getAttrOfType<ChannelHandleAttr>("channel_handle")),
      size(groups.getType().getDimSize(1)) {}

Value PieceSums::reshape(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return ReshapeOp::create(builder, loc, value, shape);
}

Value PieceSums::exchange(Value value) {
  return AllToAllOp::create(builder, loc, value.getType(), value, 0, 0, size,
                            groups, channel)
      ->getResult(0);
}

/// Makes the pieces along `dim` a new first dimension.
Value PieceSums::cutToFront(Value value, int64_t dim) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= size;
  shape.insert(shape.begin() + dim, size);
  value = reshape(value, shape);
  if (dim == 0)
    return value;
  SmallVector<int64_t> order = {dim};
  for (int64_t other = 0; other < static_cast<int64_t>(shape.size()); ++other)
    if (other != dim)
      order.push_back(other);
  return TransposeOp::create(builder, loc, value, order);
}

Value PieceSums::scatter(Value value, int64_t dim) {
  // Along the first dimension the exchange comes first, so that an array of
  // rank 1 keeps its rank and can be bucketed.
  return sumParts(builder, dim == 0 ? cutToFront(exchange(value), 0)
                                    : exchange(cutToFront(value, dim)));
}

Value PieceSums::gather(Value value) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[0] *= size;
  return AllGatherOp::create(builder, loc,
                             TypeRange{typeOf(value).clone(shape)},
                             ValueRange{value}, 0, groups, channel,
                             /*use_global_device_ids=*/true)
      ->getResult(0);
}

Value PieceSums::gathered(Value value) {
  int64_t count = typeOf(value).getNumElements();
  Value parts = reshape(gather(reshape(value, {count})), {size, count});
  return reshape(sumParts(builder, parts), typeOf(value).getShape());
}

Value PieceSums::padTo(Value flat, int64_t count) {
  int64_t held = typeOf(flat).getNumElements();
  if (held == count)
    return flat;
  Value zero = buildZero(builder, loc, getElementTypeOrSelf(flat));
  SmallVector<int64_t> none{0}, high{count - held};
  return PadOp::create(builder, loc, flat, zero, none, high, none);
}

Value PieceSums::all(Value value) {
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  int64_t count = typeOf(value).getNumElements();
  auto filled = static_cast<int64_t>(llvm::alignTo(count, size));
  Value sum = gather(scatter(padTo(reshape(value, {count}), filled), 0));
  if (filled != count)
    sum = SliceOp::create(builder, loc, sum, {count});
  return reshape(sum, shape);
}

Value scalify::buildOrderedSum(OpBuilder &builder, Location loc, Value parts,
                               Type rounded, bool isProduct) {
  auto scalar = RankedTensorType::get({}, getElementTypeOrSelf(parts));
  // The neutral element: starting from 0, a sum of parts that are -0 would be
  // 0.
  Attribute start =
      builder.getFloatAttr(scalar.getElementType(), isProduct ? 1.0 : -0.0);
  Value init = buildConstant(builder, loc, scalar, start);
  Value sum = isProduct ? buildReduce<MulOp>(builder, loc, parts, init, {0})
                        : buildReduce<AddOp>(builder, loc, parts, init, {0});
  auto mark = [&] {
    sum.getDefiningOp()->setAttr(kInOrderAttr, builder.getUnitAttr());
  };
  mark();
  if (rounded == scalar.getElementType())
    return sum;
  sum = ConvertOp::create(builder, loc, typeOf(sum).clone(rounded), sum);
  mark();
  return sum;
}
