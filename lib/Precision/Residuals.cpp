//===- Residuals.cpp - Differences that training makes small --------------===//

#include "Residuals.h"

#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/Contraction.h"
#include "scalify/Dialect/StableHLO/ControlFlow.h"
#include "scalify/Precision/ValueOrigin.h"
#include "scalify/Scaling/ScaleAnalysis.h"

using namespace mlir;
using namespace scalify;

namespace {
/// What a value depends on.
struct Sources {
  bool weights = false, batch = false;
  bool add(Sources other) {
    bool isNew = (other.weights && !weights) || (other.batch && !batch);
    weights |= other.weights;
    batch |= other.batch;
    return isNew;
  }
};

class SourceFinder {
public:
  explicit SourceFinder(FunctionOpInterface func) {
    Block &body = func.getFunctionBody().front();
    for (BlockArgument argument : body.getArguments())
      (getWeight(argument) ? found[argument].weights : found[argument].batch) =
          true;
    visit(body);
  }
  Sources lookup(Value value) const { return found.lookup(value); }

private:
  bool add(ValueRange to, ValueRange from) {
    bool isNew = false;
    for (auto [target, source] : llvm::zip(to, from))
      isNew |= found[target].add(found.lookup(source));
    return isNew;
  }

  void visitRegions(Operation &op) {
    bool isNew = true;
    while (isNew) {
      isNew = false;
      for (Region &region : op.getRegions()) {
        Block &block = region.front();
        if (block.getNumArguments() == op.getNumOperands())
          add(block.getArguments(), op.getOperands());
        visit(block);
        Operation *end = block.getTerminator();
        if (end->getNumOperands() != op.getNumResults())
          continue;
        add(op.getResults(), end->getOperands());
        if (isa<stablehlo::WhileOp>(op))
          isNew |= add(block.getArguments(), end->getOperands());
      }
    }
  }

  void visit(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (stablehlo::isControlFlow(&op)) {
        visitRegions(op);
        continue;
      }
      Sources sources;
      for (Value operand : op.getOperands())
        sources.add(found.lookup(operand));
      for (Value result : op.getResults())
        found[result].add(sources);
    }
  }

  llvm::DenseMap<Value, Sources> found;
};
} // namespace

/// Whether forward ops lead from the value to a dot.
static bool leadsToDot(Value value) {
  SmallVector<Value> worklist{value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (OpOperand &use : next.getUses()) {
      Operation *user = use.getOwner();
      if (getPhase(user) != "forward" && !stablehlo::isControlFlow(user))
        continue;
      if (stablehlo::isContraction(user))
        return true;
      llvm::append_range(worklist, getFollowers(use));
    }
  }
  return false;
}

llvm::DenseSet<Operation *> scalify::findResiduals(FunctionOpInterface func) {
  SourceFinder sources(func);
  llvm::DenseSet<Operation *> found;
  func.getFunctionBody().walk([&](stablehlo::SubtractOp op) {
    Sources a = sources.lookup(op.getLhs()), b = sources.lookup(op.getRhs());
    bool isOfTarget = (a.weights && !b.weights && b.batch) ||
                      (b.weights && !a.weights && a.batch);
    if (isOfTarget && isFloatTensor(op.getType()) &&
        getPhase(op) == "forward" && !leadsToDot(op.getResult()))
      found.insert(op);
  });
  return found;
}
