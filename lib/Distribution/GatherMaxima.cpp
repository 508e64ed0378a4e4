//===- GatherMaxima.cpp - Amaxes of all-gathered values -------------------===//

#include "GatherMaxima.h"

#include "NarrowMoves.h"

#include "scalify/Dialect/StableHLO/Collectives.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::stablehlo;

/// True if the result has all elements of the operand, and at most zeros
/// besides. Slices are excluded: they may drop elements, such as the padding of
/// the last share, which may hold anything.
static bool keepsMaximum(Operation *op) {
  if (!commutesWithCast(op) || isa<SliceOp>(op))
    return false;
  auto pad = dyn_cast<PadOp>(op);
  auto crops = [](int64_t count) { return count < 0; };
  return !pad || (llvm::none_of(pad.getEdgePaddingLow(), crops) &&
                  llvm::none_of(pad.getEdgePaddingHigh(), crops));
}

/// Returns the all-gather whose amax `reduce` computes; null for other ops.
static AllGatherOp findGather(ReduceOp reduce) {
  auto type = cast<RankedTensorType>(reduce->getResult(0).getType());
  if (reduce.getInputs().size() != 1 || type.getRank() != 0 ||
      !isa<FloatType>(type.getElementType()) ||
      !isa<MaxOp>(reduce.getBody().front().front()) ||
      !matchPattern(reduce.getInitValues()[0], m_AnyZeroFloat()))
    return {};
  auto magnitude = reduce.getInputs()[0].getDefiningOp<AbsOp>();
  if (!magnitude)
    return {};
  Value value = magnitude.getOperand();
  while (keepsMaximum(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto gather = value.getDefiningOp<AllGatherOp>();
  return gather && gather->getNumOperands() == 1 ? gather : AllGatherOp();
}

static Value buildMagnitude(OpBuilder &builder, ReduceOp reduce, Value share) {
  Value magnitude = AbsOp::create(builder, reduce.getLoc(), share);
  int64_t rank = cast<RankedTensorType>(share.getType()).getRank();
  Value start =
      builder.clone(*reduce.getInitValues()[0].getDefiningOp())->getResult(0);
  return buildReduce<MaxOp>(builder, reduce.getLoc(), magnitude, start,
                            llvm::to_vector(llvm::seq<int64_t>(0, rank)));
}

static Value buildMaxOfGroup(OpBuilder &builder, AllGatherOp like,
                             Value value) {
  Location loc = value.getLoc();
  auto reduce = AllReduceOp::create(
      builder, loc, value.getType(), value, like.getReplicaGroups(),
      like.getChannelHandleAttr(), like.getUseGlobalDeviceIds());
  buildReducer<MaxOp>(builder, loc, reduce.getComputation(),
                      getElementTypeOrSelf(value));
  return reduce->getResult(0);
}

namespace {
struct Maximum {
  ReduceOp reduce;
  AllGatherOp gather;
};
} // namespace

static void replace(Maximum one, Value value) {
  one.reduce->getResult(0).replaceAllUsesWith(value);
  Operation *magnitude = one.reduce.getInputs()[0].getDefiningOp();
  one.reduce.erase();
  if (magnitude->use_empty())
    magnitude->erase();
}

static void takeOne(Maximum one) {
  OpBuilder builder(one.gather);
  Value own = buildMagnitude(builder, one.reduce, one.gather->getOperand(0));
  replace(one, buildMaxOfGroup(builder, one.gather, own));
}

/// Computes the amaxes of one replica group by one message before `anchor`.
static void computeJointMaxima(ArrayRef<Maximum> maxima, Operation *anchor) {
  OpBuilder builder(anchor);
  Location loc = anchor->getLoc();
  Type element = getElementTypeOrSelf(maxima.front().reduce->getResult(0));
  auto listOf = [&](int64_t size) {
    return RankedTensorType::get({size}, element);
  };
  auto count = static_cast<int64_t>(maxima.size());
  SmallVector<Value> own;
  for (Maximum one : maxima) {
    Value share = hoist(one.gather->getOperand(0), anchor);
    own.push_back(
        ReshapeOp::create(builder, one.reduce.getLoc(), listOf(1),
                          buildMagnitude(builder, one.reduce, share)));
  }
  Value all = ConcatenateOp::create(builder, loc, listOf(count), own, 0);
  all = buildMaxOfGroup(builder, maxima.front().gather, all);
  for (auto [i, one] : llvm::enumerate(maxima)) {
    auto place = static_cast<int64_t>(i);
    Value entry = SliceOp::create(builder, loc, all, 0, place, place + 1);
    replace(one, ReshapeOp::create(builder, loc,
                                   one.reduce->getResult(0).getType(), entry));
  }
}

void scalify::computeMaximaOfShares(func::FuncOp main) {
  Operation *first = nullptr; // the first collective
  llvm::MapVector<std::pair<Attribute, Type>, SmallVector<Maximum>> early;
  SmallVector<Maximum> late;
  for (Operation &op : main.getBody().front()) {
    if (!first && isCollective(&op))
      first = &op;
    auto reduce = dyn_cast<ReduceOp>(op);
    AllGatherOp gather = reduce ? findGather(reduce) : AllGatherOp();
    if (!gather)
      continue;
    Type element = getElementTypeOrSelf(reduce->getResult(0));
    if (canHoist(gather->getOperand(0), first))
      early[{gather.getReplicaGroups(), element}].push_back({reduce, gather});
    else
      late.push_back({reduce, gather});
  }
  for (auto &[key, maxima] : early)
    computeJointMaxima(maxima, first);
  for (Maximum one : late)
    takeOne(one);
}
