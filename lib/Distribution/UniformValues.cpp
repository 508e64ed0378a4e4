//===- UniformValues.cpp - Values that are the same on all ranks ----------===//

#include "UniformValues.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace scalify;

/// Returns the members of each group.
static SmallVector<SmallVector<int64_t>> read(DenseIntElementsAttr groups) {
  int64_t size = groups.getType().getDimSize(1);
  SmallVector<SmallVector<int64_t>> members;
  for (auto [place, id] : llvm::enumerate(groups.getValues<int64_t>())) {
    if (static_cast<int64_t>(place) % size == 0)
      members.emplace_back();
    if (id >= 0) // -1 pads a short group
      members.back().push_back(id);
  }
  return members;
}

/// True if each of the groups lies within one of the others.
static bool isWithin(DenseIntElementsAttr groups, DenseIntElementsAttr others) {
  if (groups == others)
    return true;
  auto larger = read(others);
  return llvm::all_of(read(groups), [&](ArrayRef<int64_t> group) {
    return llvm::any_of(larger, [&](ArrayRef<int64_t> other) {
      return llvm::all_of(
          group, [&](int64_t id) { return llvm::is_contained(other, id); });
    });
  });
}

/// True for an argument of main that is replicated: it is no shard of a larger
/// value, or Precision has added it.
static bool isReplicatedArgument(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return false;
  auto whole = function.getArgAttrOfType<TypeAttr>(argument.getArgNumber(),
                                                   kWholeTypeAttr);
  return !whole || cast<ShapedType>(whole.getValue()).getShape() ==
                       cast<ShapedType>(argument.getType()).getShape();
}

namespace {
/// Follows values to their definitions, with memoization.
class Uniformity {
public:
  explicit Uniformity(DenseIntElementsAttr groups) : groups(groups) {}
  bool holds(Value value);

private:
  bool find(Value value);
  bool find(Operation *op);

  DenseIntElementsAttr groups;
  llvm::DenseMap<Value, bool> known;
};
} // namespace

bool Uniformity::find(Operation *op) {
  using namespace stablehlo;
  if (isa<AllReduceOp, AllGatherOp>(op))
    return isWithin(groups,
                    op->getAttrOfType<DenseIntElementsAttr>("replica_groups"));
  // Loops and branches are not followed: no scale that is asked for needs it.
  bool isFollowed = isMemoryEffectFree(op) || isa<ReduceOp>(op);
  if (!isFollowed ||
      isa<PartitionIdOp, ReplicaIdOp, ReduceScatterOp, AllToAllOp,
          CollectivePermuteOp, CollectiveBroadcastOp, WhileOp, IfOp, CaseOp>(
          op))
    return false;
  llvm::SetVector<Value> reads(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), reads);
  return llvm::all_of(reads, [&](Value read) { return holds(read); });
}

bool Uniformity::find(Value value) {
  value = lookThrough(value, Move::Invariant);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isReplicatedArgument(argument);
  return find(value.getDefiningOp());
}

bool Uniformity::holds(Value value) {
  if (auto place = known.find(value); place != known.end())
    return place->second;
  bool isSo = find(value);
  known[value] = isSo;
  return isSo;
}

bool scalify::isUniform(Value value, DenseIntElementsAttr groups) {
  return Uniformity(groups).holds(value);
}
