//===- Phases.cpp - Helpers of both methods to find phases ----------------===//

#include "Phases.h"

#include "../ArgumentInfo.h"
#include "scalify/Dialect/Sdy/Sdy.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace scalify;
using namespace scalify::import;

bool scalify::import::takesPhase(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return false;
  Operation *parent = op->getParentOp();
  while (isa_and_nonnull<stablehlo::CaseOp, stablehlo::IfOp, stablehlo::WhileOp,
                         sdy::ManualComputationOp>(parent))
    parent = parent->getParentOp();
  return isa_and_nonnull<func::FuncOp>(parent);
}

SmallVector<Value> scalify::import::getReads(Operation &op) {
  SmallVector<Value> reads(op.getOperands());
  if (op.getNumRegions() == 0)
    return reads;
  SetVector<Value> captured;
  getUsedValuesDefinedAbove(op.getRegions(), captured);
  llvm::append_range(reads, captured);
  return reads;
}

void scalify::import::settleConstants(func::FuncOp main, PhaseMap &phases) {
  // Users come after: in reverse order, each op's users are settled.
  for (Operation &op : llvm::reverse(main.getBody().front())) {
    bool isConstant = llvm::all_of(getReads(op), [](Value read) {
      Operation *source = read.getDefiningOp();
      return source && source->hasTrait<OpTrait::ConstantLike>();
    });
    if (!isConstant || !takesPhase(&op) || op.use_empty())
      continue;
    Phase first = Phase::Optimizer;
    bool found = false;
    for (Operation *user : op.getUsers()) {
      Operation *node = main.getBody().front().findAncestorOpInBlock(*user);
      if (auto phase = phases.find(node); phase != phases.end()) {
        first = std::min(first, phase->second);
        found = true;
      }
    }
    if (found)
      phases[&op] = first;
  }
}
