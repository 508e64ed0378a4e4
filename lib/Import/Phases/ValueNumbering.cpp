//===- ValueNumbering.cpp - Value numbering through barriers --------------===//

#include "ValueNumbering.h"

#include "Phases.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

Value ValueNumbering::getLeader(Value value) const {
  value = lookThrough(value, Move::Barrier);
  Operation *op = value.getDefiningOp();
  auto leader = leaders.find(op);
  if (!op || leader == leaders.end())
    return value;
  return leader->second->getResult(cast<OpResult>(value).getResultNumber());
}

bool ValueNumbering::isEqual(Operation *lhs, Operation *rhs) const {
  // Values defined in the ops' regions are equal by position.
  llvm::DenseMap<Value, Value> inner;
  return OperationEquivalence::isEquivalentTo(
      lhs, rhs,
      [&](Value a, Value b) {
        return success(getLeader(a) == getLeader(b) || inner.lookup(b) == a);
      },
      [&](Value a, Value b) { inner[b] = a; },
      OperationEquivalence::IgnoreLocations);
}

ValueNumbering::ValueNumbering(Block &block) {
  llvm::DenseMap<size_t, SmallVector<Operation *, 1>> buckets;
  for (Operation &op : block) {
    leaders[&op] = &op;
    if (!isMemoryEffectFree(&op) || isa<stablehlo::OptimizationBarrierOp>(op) ||
        op.getNumResults() == 0)
      continue;
    llvm::hash_code hash = OperationEquivalence::computeHash(
        &op, [&](Value operand) { return hash_value(getLeader(operand)); },
        OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations);
    SmallVector<Operation *, 1> &bucket = buckets[hash];
    auto *equal = llvm::find_if(
        bucket, [&](Operation *other) { return isEqual(other, &op); });
    if (equal == bucket.end())
      bucket.push_back(&op);
    else
      leaders[&op] = *equal;
  }
}
