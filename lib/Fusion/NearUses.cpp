//===- NearUses.cpp - Rematerialisation near uses -------------------------===//

#include "NearUses.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace scalify;

NearUses::NearUses(Block &block, UseDistances distances)
    : distances(distances) {
  for (Operation &op : block)
    position[&op] = static_cast<int64_t>(position.size());
}

int64_t NearUses::rematerialise(Operation *op) {
  int64_t clones = 0;
  SmallVector<std::pair<int64_t, OpOperand *>> uses;
  for (OpOperand &use : op->getResult(0).getUses())
    uses.push_back({position.lookup(use.getOwner()), &use});
  llvm::sort(uses, llvm::less_first());
  Operation *current = op;
  int64_t previous = position.lookup(op);
  for (auto [here, use] : uses) {
    PhaseAttr phase = getPhaseAttr(use->getOwner());
    bool isOther = phase && phase != getPhaseAttr(current);
    if (here - previous >
        (isOther ? distances.otherPhase : distances.samePhase)) {
      current = OpBuilder(use->getOwner()).clone(*op);
      copyPhase(use->getOwner(), current);
      position[current] = here;
      ++clones;
    }
    use->set(current->getResult(0));
    previous = here;
  }
  if (op->use_empty())
    op->erase();
  return clones;
}
