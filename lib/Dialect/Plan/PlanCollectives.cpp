//===- PlanCollectives.cpp - Verification of collectives and messages -----===//

#include "scalify/Dialect/Plan/Plan.h"

#include <set>

using namespace mlir;
using namespace scalify::plan;

/// Checks that no rank is in two groups, in which it could not be ordered.
static LogicalResult verifyGroups(CollectiveOp op) {
  auto type = op.getGroups().getShapedType();
  if (type.getRank() != 2 || type.getNumElements() == 0)
    return op.emitOpError("needs groups as rows of ranks");
  std::set<int64_t> seen;
  for (int64_t rank : op.getGroups().getValues<int64_t>())
    if (rank < 0 || !seen.insert(rank).second)
      return op.emitOpError("names rank ")
             << rank << ", which is negative or occurs twice";
  return success();
}

static LogicalResult verifyPairs(CollectiveOp op) {
  auto type = op.getGroups().getShapedType();
  if (type.getRank() != 2 || type.getDimSize(1) != 2)
    return op.emitOpError("needs rows (from, to)");
  std::set<int64_t> ends[2];
  for (auto [index, rank] :
       llvm::enumerate(op.getGroups().getValues<int64_t>()))
    if (rank < 0 || !ends[index % 2].insert(rank).second)
      return op.emitOpError("sends twice from or to rank ") << rank;
  return success();
}

LogicalResult MessageOp::verify() {
  if (getTo().has_value() == getFrom().has_value())
    return emitOpError("needs one of 'to' and 'from', not both");
  if (getPeer() < 0)
    return emitOpError("names rank ") << getPeer() << ", which is negative";
  return success();
}

LogicalResult CollectiveOp::verify() {
  bool isPermute = getKind() == CollectiveKind::Permute;
  if (failed(isPermute ? verifyPairs(*this) : verifyGroups(*this)))
    return failure();
  bool joins = getKind() == CollectiveKind::AllReduce ||
               getKind() == CollectiveKind::ReduceScatter;
  if (joins != (getJoin() != Join::None))
    return emitOpError(joins ? "needs a reduction such as 'sum'"
                             : "reduces nothing, and needs 'none'");
  auto source = cast<MemRefType>(getSource().getType());
  auto destination = cast<MemRefType>(getDestination().getType());
  if (source.getElementType() != destination.getElementType())
    return emitOpError("changes the element type");
  int64_t size = isPermute ? 1 : getGroups().getShapedType().getDimSize(1);
  int64_t from = source.getNumElements(), to = destination.getNumElements();
  bool fits = from == to;
  if (getKind() == CollectiveKind::AllGather)
    fits = to == from * size;
  else if (getKind() == CollectiveKind::ReduceScatter)
    fits = from == to * size;
  else if (getKind() == CollectiveKind::AllToAll)
    fits = from == to && from % size == 0;
  if (!fits)
    return emitOpError("takes ")
           << from << " elements and gives " << to << " in groups of " << size;
  return success();
}
