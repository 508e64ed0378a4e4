//===- NarrowSums.cpp - Sums over ranks of narrow data --------------------===//
//
// A reduction inside a transport rounds at every hop: 8 ranks of E4M3 have lost
// 8 dB by then, 512 everything. Here each rank sends every other one the piece
// that this one sums, and sums what it gets in F32, in the order of ranks.
//
//===----------------------------------------------------------------------===//

#include "NarrowSums.h"

#include "NarrowMoves.h"
#include "UniformValues.h"

#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {
/// Writes one sum at the place of its op.
class NarrowSum {
public:
  NarrowSum(Operation *op, DequantizeOp from)
      : from(from), builder(op), loc(op->getLoc()),
        groups(op->getAttrOfType<DenseIntElementsAttr>("replica_groups")),
        channel(op->getAttrOfType<ChannelHandleAttr>("channel_handle")),
        size(groups.getType().getDimSize(1)) {}

  Value scatter(Value data, int64_t dim);
  Value all(Value data);

private:
  Value sumParts(Value data, int64_t dim);
  Value reshape(Value value, ArrayRef<int64_t> shape);

  DequantizeOp from;
  OpBuilder builder;
  Location loc;
  DenseIntElementsAttr groups;
  ChannelHandleAttr channel;
  int64_t size; // of a group
};
} // namespace

Value NarrowSum::reshape(Value value, ArrayRef<int64_t> shape) {
  if (typeOf(value).getShape() == shape)
    return value;
  return ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value);
}

/// The sum along a dimension of the group's size.
Value NarrowSum::sumParts(Value data, int64_t dim) {
  Type wide = getElementTypeOrSelf(from.getType()), f32 = builder.getF32Type();
  Value parts = DequantizeOp::create(builder, loc, typeOf(data).clone(wide),
                                     data, from.getScale());
  if (wide != f32)
    parts = ConvertOp::create(builder, loc, typeOf(data).clone(f32), parts);
  // With 0 the sum of parts that are -0 would be another one than theirs.
  Value start = ConstantOp::create(builder, loc,
                                   cast<ElementsAttr>(DenseElementsAttr::get(
                                       RankedTensorType::get({}, f32), -0.0f)));
  Value sum = buildReduce<AddOp>(builder, loc, parts, start, {dim});
  sum.getDefiningOp()->setAttr(kInOrderAttr, builder.getUnitAttr());
  if (wide == f32)
    return sum;
  auto rounded = ConvertOp::create(builder, loc, typeOf(sum).clone(wide), sum);
  rounded->setAttr(kInOrderAttr, builder.getUnitAttr());
  return rounded;
}

Value NarrowSum::scatter(Value data, int64_t dim) {
  Value parts = AllToAllOp::create(builder, loc, data.getType(), data, dim, dim,
                                   size, groups, channel)
                    ->getResult(0);
  SmallVector<int64_t> shape(typeOf(data).getShape());
  shape[dim] /= size;
  shape.insert(shape.begin() + dim, size);
  return sumParts(reshape(parts, shape), dim);
}

/// Each rank sums a piece, and the pieces are gathered.
Value NarrowSum::all(Value data) {
  RankedTensorType type = typeOf(data);
  int64_t count = type.getNumElements();
  auto filled = static_cast<int64_t>(llvm::alignTo(count, size));
  Value flat = reshape(data, {count});
  if (filled != count) {
    Value zero = ConstantOp::create(
        builder, loc,
        cast<ElementsAttr>(builder.getZeroAttr(
            RankedTensorType::get({}, type.getElementType()))));
    flat = PadOp::create(builder, loc, typeOf(flat).clone({filled}), flat, zero,
                         builder.getDenseI64ArrayAttr({0}),
                         builder.getDenseI64ArrayAttr({filled - count}),
                         builder.getDenseI64ArrayAttr({0}));
  }
  Value piece = scatter(flat, 0);
  Value sum = AllGatherOp::create(builder, loc,
                                  TypeRange{typeOf(piece).clone({filled})},
                                  ValueRange{piece}, 0, groups, channel,
                                  /*use_global_device_ids=*/true)
                  ->getResult(0);
  if (filled != count)
    sum = SliceOp::create(builder, loc, typeOf(sum).clone({count}), sum,
                          builder.getDenseI64ArrayAttr({0}),
                          builder.getDenseI64ArrayAttr({count}),
                          builder.getDenseI64ArrayAttr({1}));
  return reshape(sum, type.getShape());
}

bool scalify::narrowSum(Operation *op) {
  Value wide = op->getOperand(0);
  DequantizeOp from = findDequantize(wide);
  auto groups = op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  if (!from || !isSum(op->getRegion(0)) ||
      getElementTypeOrSelf(from.getData()).getIntOrFloatBitWidth() >=
          getElementTypeOrSelf(wide).getIntOrFloatBitWidth())
    return false;
  auto stays = [&](StringRef why) {
    op->emitRemark("sums ")
        << wide.getType() << " that was "
        << getElementTypeOrSelf(from.getData()) << ": " << why;
    return false;
  };
  if (llvm::is_contained(groups.getValues<int64_t>(), -1))
    return stays("its groups are of unequal size");
  if (typeOf(wide).getNumElements() < groups.getType().getDimSize(1))
    return stays("it has fewer elements than a group has ranks");
  if (!isUniform(from.getScale(), groups))
    return stays("ranks may have different scales for it");

  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  Value data = buildNarrow(builder, wide);
  NarrowSum sum(op, from);
  auto part = dyn_cast<ReduceScatterOp>(op);
  Value result =
      part ? sum.scatter(data, static_cast<int64_t>(part.getScatterDimension()))
           : sum.all(data);
  if (Attribute phase = op->getAttr(kPhaseAttr))
    for (Operation *made = op->getPrevNode(); made != before;
         made = made->getPrevNode())
      made->setAttr(kPhaseAttr, phase);
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}
