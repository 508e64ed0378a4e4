//===- Collective.cpp - Communication between devices ---------------------===//

#include "Assembly.h"
#include "Verification.h"

#include "scalify/Dialect/StableHLO/Collectives.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;
using namespace scalify::stablehlo;

bool scalify::stablehlo::isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp,
             CollectivePermuteOp, CollectiveBroadcastOp>(op);
}

LogicalResult scalify::stablehlo::checkNamesDevices(Operation *collective) {
  auto channel = collective->getAttrOfType<ChannelHandleAttr>("channel_handle");
  bool isByPartitions =
      isa<AllToAllOp, CollectivePermuteOp, CollectiveBroadcastOp>(collective);
  if (channel && channel.getHandle() > 0 &&
      (isByPartitions || collective->hasAttr("use_global_device_ids")))
    return success();
  return collective->emitOpError("names replicas, not devices of a mesh: it "
                                 "has no channel, or no global device ids");
}

/// Checks that groups are rows of distinct device ids; -1 pads a short row.
static LogicalResult checkGroups(Operation *op, DenseIntElementsAttr groups) {
  if (groups.getType().getRank() != 2)
    return op->emitOpError()
           << "needs replica groups of rank 2 but got " << groups.getType();
  // One number stands for any size: the loop would not end.
  if (groups.isSplat() && groups.getSplatValue<APInt>().isAllOnes())
    return op->emitOpError("has replica groups that name no device");
  std::set<int64_t> seen;
  for (int64_t id : groups.getValues<int64_t>()) {
    if (id == -1)
      continue;
    if (id < 0 || !seen.insert(id).second)
      return op->emitOpError()
             << "needs distinct ids of at least 0 in replica groups but got "
             << id;
  }
  return success();
}

/// The size of each group.
static int64_t groupSize(DenseIntElementsAttr groups) {
  return groups.getType().getDimSize(1);
}

/// Checks the groups, and that global device ids come with a channel.
template <typename Op> static LogicalResult checkRanks(Op op) {
  if (failed(checkGroups(op, op.getReplicaGroups())))
    return failure();
  std::optional<ChannelHandleAttr> channel = op.getChannelHandle();
  if (op.getUseGlobalDeviceIds() && (!channel || channel->getHandle() <= 0))
    return op.emitOpError("needs a channel handle above 0 to use global "
                          "device ids");
  return success();
}

static LogicalResult checkCounts(Operation *op) {
  if (op->getNumResults() != op->getNumOperands())
    return op->emitOpError()
           << "needs one result per operand but got " << op->getNumResults()
           << " for " << op->getNumOperands();
  return success();
}

static Type scalarOf(Type type) {
  return RankedTensorType::get({}, getElementTypeOrSelf(type));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  // all_reduce_c1, all_reduce_c3, all_reduce_c4
  if (failed(checkRanks(*this)))
    return failure();
  // all_reduce_c6, all_reduce_c7
  if (failed(checkCounts(*this)))
    return failure();
  for (auto [operand, result] :
       llvm::zip(getOperands().getTypes(), getResultTypes()))
    if (failed(verifyCompatibleShape(operand, result)))
      return emitOpError() << "needs results of the operands' shapes but got "
                           << operand << " and " << result;
    else if (failed(checkPromotable(*this, operand, result)))
      return failure();
  // all_reduce_c5
  if (getNumResults() == 0)
    return success();
  return checkReducer(*this, getComputation(),
                      {scalarOf(getResultTypes().front())});
}

LogicalResult ReduceScatterOp::verify() {
  auto operand = cast<RankedTensorType>(getOperand().getType());
  auto result = cast<RankedTensorType>(getType());
  int64_t dim = getScatterDimension();
  // reduce_scatter_c3 to c6
  if (failed(checkRanks(*this)))
    return failure();
  // reduce_scatter_c2
  if (failed(checkDims(getLoc(), getOperationName(), "scatter_dimension", dim,
                       operand.getRank())))
    return failure();
  // reduce_scatter_c1, reduce_scatter_c8
  SmallVector<int64_t> shape(operand.getShape());
  int64_t group = groupSize(getReplicaGroups());
  if (ShapedType::isStatic(shape[dim])) {
    if (group <= 0 || shape[dim] % group != 0)
      return emitOpError() << "cannot split dimension " << dim << " of "
                           << operand << " into " << group << " parts";
    shape[dim] /= group;
  }
  if (failed(checkResultShape(*this, shape, result)) ||
      failed(checkPromotable(*this, operand, result)))
    return failure();
  // reduce_scatter_c7
  return checkReducer(*this, getComputation(), {scalarOf(result)});
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

LogicalResult AllGatherOp::verify() {
  // all_gather_c2 to c5
  if (failed(checkRanks(*this)))
    return failure();
  if (failed(checkCounts(*this)))
    return failure();
  int64_t dim = getAllGatherDim(), group = groupSize(getReplicaGroups());
  for (auto [from, to] :
       llvm::zip(getOperands().getTypes(), getResultTypes())) {
    auto operand = cast<RankedTensorType>(from);
    auto result = cast<RankedTensorType>(to);
    // all_gather_c1
    if (failed(checkDims(getLoc(), getOperationName(), "all_gather_dim", dim,
                         operand.getRank())))
      return failure();
    // all_gather_c6
    SmallVector<int64_t> shape(operand.getShape());
    if (ShapedType::isStatic(shape[dim]) &&
        llvm::MulOverflow(shape[dim], group, shape[dim]))
      return emitOpError() << "has a result of more elements than 63 bits can "
                              "count along dimension "
                           << dim;
    if (failed(checkResultShape(*this, shape, result)))
      return failure();
  }
  return success();
}

LogicalResult AllToAllOp::verify() {
  // all_to_all_c5, all_to_all_c7
  if (failed(checkGroups(*this, getReplicaGroups())))
    return failure();
  int64_t parts = getSplitCount(), split = getSplitDimension();
  int64_t concat = getConcatDimension();
  // all_to_all_c8
  if (groupSize(getReplicaGroups()) != parts)
    return emitOpError() << "needs groups of split_count " << parts
                         << " but got " << groupSize(getReplicaGroups());
  if (failed(checkCounts(*this)))
    return failure();
  for (auto [from, to] :
       llvm::zip(getOperands().getTypes(), getResultTypes())) {
    auto operand = cast<RankedTensorType>(from);
    // all_to_all_c1, all_to_all_c3
    if (failed(checkDims(getLoc(), getOperationName(), "split_dimension", split,
                         operand.getRank())) ||
        failed(checkDims(getLoc(), getOperationName(), "concat_dimension",
                         concat, operand.getRank())))
      return failure();
    // all_to_all_c2, all_to_all_c9
    SmallVector<int64_t> shape(operand.getShape());
    if (ShapedType::isStatic(shape[split])) {
      if (shape[split] % parts != 0)
        return emitOpError() << "cannot split dimension " << split << " of "
                             << operand << " into " << parts << " parts";
      shape[split] /= parts;
    }
    if (ShapedType::isStatic(shape[concat]) &&
        llvm::MulOverflow(shape[concat], parts, shape[concat]))
      return emitOpError() << "has a result of more elements than 63 bits can "
                              "count along dimension "
                           << concat;
    Type expected = RankedTensorType::get(shape, operand.getElementType());
    if (!detail::areCompatibleTypes(TypeRange{expected}, TypeRange{to}))
      return emitOpError() << "needs a result of type " << expected
                           << " but got " << to;
  }
  return success();
}

LogicalResult
scalify::stablehlo::checkSourceTargetPairs(Operation *op,
                                           DenseIntElementsAttr pairs) {
  // collective_permute_c1
  if (pairs.getType().getRank() != 2 || pairs.getType().getDimSize(1) != 2)
    return op->emitOpError()
           << "needs source_target_pairs of shape Nx2 but got "
           << pairs.getType();
  // collective_permute_c2 to c4
  std::set<int64_t> sources, targets;
  auto values = pairs.getValues<int64_t>();
  for (int64_t i = 0, e = pairs.getNumElements(); i < e; i += 2) {
    if (values[i] < 0 || values[i + 1] < 0)
      return op->emitOpError() << "needs device ids of at least 0 but got "
                               << std::min(values[i], values[i + 1]);
    if (!sources.insert(values[i]).second)
      return op->emitOpError() << "names source " << values[i] << " twice";
    if (!targets.insert(values[i + 1]).second)
      return op->emitOpError() << "names target " << values[i + 1] << " twice";
  }
  return success();
}

LogicalResult CollectivePermuteOp::verify() {
  return checkSourceTargetPairs(*this, getSourceTargetPairs());
}

LogicalResult CollectiveBroadcastOp::verify() {
  // collective_broadcast_c1, collective_broadcast_c2
  return checkGroups(*this, getReplicaGroups());
}

#define GET_OP_CLASSES
#include "scalify/Dialect/StableHLO/Collective.cpp.inc"
