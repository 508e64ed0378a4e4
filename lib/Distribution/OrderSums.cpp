//===- OrderSums.cpp - Sums over ranks in the order of ranks --------------===//
//
// A transport of GPUs sums in an order of its own choice. Here each rank sends
// every other one the piece that this one sums, and sums what it gets in the
// order of the group, as transports of CPUs do: no more bytes than a ring, and
// the bits of one process. Of few bytes each rank gets all and sums all.
//
//===----------------------------------------------------------------------===//

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

namespace scalify {
#define GEN_PASS_DEF_ORDERSUMSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The op by which a region joins two elements, where their order matters.
static Operation *findOrderedJoin(Region &region) {
  Block &body = region.front();
  Operation *op = &body.front();
  bool isJoin = isa<AddOp, MulOp>(op) &&
                llvm::hasSingleElement(body.without_terminator()) &&
                op->getOperand(0) != op->getOperand(1) &&
                llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>) &&
                body.getTerminator()->getOperand(0) == op->getResult(0);
  return isJoin && isa<FloatType>(getElementTypeOrSelf(op->getResult(0)))
             ? op
             : nullptr;
}

namespace {
/// Writes one operand's sum at the place of its op.
class OrderedSum {
public:
  OrderedSum(Operation *op, Operation *join)
      : join(join), builder(op), loc(op->getLoc()),
        groups(op->getAttrOfType<DenseIntElementsAttr>("replica_groups")),
        channel(op->getAttrOfType<ChannelHandleAttr>("channel_handle")),
        phase(op->getAttr(kPhaseAttr)), size(groups.getType().getDimSize(1)) {}

  Value gathered(Value value);
  Value all(Value value);
  Value scatter(Value value, int64_t dim);

private:
  Value gather(Value value);
  Value sumParts(Value parts);
  Value cutToFront(Value value, int64_t dim);
  Value fillUp(Value flat, int64_t count);
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return create<ReshapeOp>(typeOf(value).clone(shape), value);
  }
  template <typename Op, typename... Args> Value create(Args &&...args) {
    auto op = Op::create(builder, loc, std::forward<Args>(args)...);
    if (phase)
      op->setAttr(kPhaseAttr, phase);
    return op->getResult(0);
  }
  Value constant(Type element, double value) {
    auto type = RankedTensorType::get({}, element);
    return create<ConstantOp>(cast<ElementsAttr>(
        DenseElementsAttr::get(type, builder.getFloatAttr(element, value))));
  }

  Operation *join;
  OpBuilder builder;
  Location loc;
  DenseIntElementsAttr groups;
  ChannelHandleAttr channel;
  Attribute phase;
  int64_t size; // of a group
};
} // namespace

/// Along the first dimension, which has the ranks' parts in order.
Value OrderedSum::sumParts(Value parts) {
  Type narrow = getElementTypeOrSelf(parts);
  bool isNarrow = narrow.getIntOrFloatBitWidth() < 32;
  Type wide = isNarrow ? builder.getF32Type() : narrow;
  if (isNarrow)
    parts = create<ConvertOp>(typeOf(parts).clone(wide), parts);
  // What joins without a trace: with 0, a sum of parts that are -0 would be 0.
  bool isSum = isa<AddOp>(join);
  Value start = constant(wide, isSum ? -0.0 : 1.0);
  Value sum = isSum ? buildReduce<AddOp>(builder, loc, parts, start, {0})
                    : buildReduce<MulOp>(builder, loc, parts, start, {0});
  auto mark = [&] {
    sum.getDefiningOp()->setAttr(kInOrderAttr, builder.getUnitAttr());
    if (phase)
      sum.getDefiningOp()->setAttr(kPhaseAttr, phase);
  };
  mark();
  if (isNarrow) {
    sum = create<ConvertOp>(typeOf(sum).clone(narrow), sum);
    mark();
  }
  return sum;
}

/// The parts along a dimension as a first dimension of their own.
Value OrderedSum::cutToFront(Value value, int64_t dim) {
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
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin(), size);
  return create<TransposeOp>(typeOf(value).clone(shape), value,
                             builder.getDenseI64ArrayAttr(order));
}

Value OrderedSum::scatter(Value value, int64_t dim) {
  Value parts = cutToFront(value, dim);
  return sumParts(
      create<AllToAllOp>(parts.getType(), parts, 0, 0, size, groups, channel));
}

Value OrderedSum::gather(Value value) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[0] *= size;
  return create<AllGatherOp>(TypeRange{typeOf(value).clone(shape)},
                             ValueRange{value}, 0, groups, channel,
                             /*use_global_device_ids=*/true);
}

Value OrderedSum::gathered(Value value) {
  int64_t count = typeOf(value).getNumElements();
  Value parts = reshape(gather(reshape(value, {count})), {size, count});
  return reshape(sumParts(parts), typeOf(value).getShape());
}

Value OrderedSum::fillUp(Value flat, int64_t count) {
  int64_t held = typeOf(flat).getNumElements();
  if (held == count)
    return flat;
  Value zero = constant(getElementTypeOrSelf(flat), 0);
  return create<PadOp>(typeOf(flat).clone({count}), flat, zero,
                       builder.getDenseI64ArrayAttr({0}),
                       builder.getDenseI64ArrayAttr({count - held}),
                       builder.getDenseI64ArrayAttr({0}));
}

/// Each rank sums a piece, and the pieces are gathered.
Value OrderedSum::all(Value value) {
  int64_t count = typeOf(value).getNumElements();
  auto filled = static_cast<int64_t>(llvm::alignTo(count, size));
  Value flat = fillUp(reshape(value, {count}), filled);
  Value sum = gather(scatter(flat, 0));
  if (filled != count)
    sum = create<SliceOp>(typeOf(sum).clone({count}), sum,
                          builder.getDenseI64ArrayAttr({0}),
                          builder.getDenseI64ArrayAttr({count}),
                          builder.getDenseI64ArrayAttr({1}));
  return reshape(sum, typeOf(value).getShape());
}

namespace {
struct OrderSumsPass : scalify::impl::OrderSumsPassBase<OrderSumsPass> {
  using OrderSumsPassBase::OrderSumsPassBase;
  void runOnOperation() override;

private:
  bool order(Operation *op);
};
} // namespace

bool OrderSumsPass::order(Operation *op) {
  Operation *join = findOrderedJoin(op->getRegion(0));
  auto groups = op->getAttrOfType<DenseIntElementsAttr>("replica_groups");
  // Groups of unequal size are refused where collectives are formed.
  auto isEmpty = [](Value value) {
    return typeOf(value).getNumElements() == 0;
  };
  if (!join || llvm::is_contained(groups.getValues<int64_t>(), -1) ||
      llvm::any_of(op->getOperands(), isEmpty))
    return false;
  int64_t size = groups.getType().getDimSize(1);
  OrderedSum sum(op, join);
  SmallVector<Value> results;
  for (Value value : op->getOperands()) {
    RankedTensorType type = typeOf(value);
    int64_t bytes =
        size * type.getNumElements() * (type.getElementTypeBitWidth() / 8);
    if (auto part = dyn_cast<ReduceScatterOp>(op))
      results.push_back(
          sum.scatter(value, static_cast<int64_t>(part.getScatterDimension())));
    else
      results.push_back(bytes <= gatherBytes ? sum.gathered(value)
                                             : sum.all(value));
  }
  op->replaceAllUsesWith(results);
  op->erase();
  return true;
}

void OrderSumsPass::runOnOperation() {
  SmallVector<Operation *> sums;
  getOperation().walk([&](Operation *op) {
    if (isa<AllReduceOp, ReduceScatterOp>(op))
      sums.push_back(op);
  });
  for (Operation *op : sums)
    numOrdered += order(op);
}
