//===- RepeatedOps.cpp - Ops that repeat another one ----------------------===//

#include "RepeatedOps.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/OpKinds.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace scalify;

/// True for ops that `scalify-quantize` repeats: no dot and no reduction.
static bool isRepeatable(Operation *op) {
  using namespace stablehlo;
  return op->getNumResults() == 1 && op->getNumRegions() == 0 &&
         (isElementwiseOp(op) || op->hasTrait<mlir::OpTrait::ConstantLike>() ||
          isa<BroadcastInDimOp, IotaOp, ReshapeOp, ReverseOp, SliceOp,
              TransposeOp>(op));
}

/// Looks through a cast by which a recipe saved a value for the backward.
static Value skipSavedCast(Value value) {
  auto wide = value.getDefiningOp<DequantizeOp>();
  auto kept =
      wide ? wide.getOperand(0).getDefiningOp<QuantizeOp>() : QuantizeOp();
  return kept && kept.getScale() == wide.getScale() ? kept.getValue() : value;
}

namespace {
/// Compares two trees of ops; memoises pairs that are equal.
class Comparison {
public:
  bool areEqual(Value a, Value b) {
    b = skipSavedCast(b);
    if (a == b)
      return true;
    Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
    if (!x || !y || x->getName() != y->getName() || a.getType() != b.getType())
      return false;
    if (known.contains({x, y}))
      return true;
    if (!isRepeatable(x) || x->getNumOperands() != y->getNumOperands() ||
        x->getPropertiesAsAttribute() != y->getPropertiesAsAttribute())
      return false;
    for (auto [left, right] : llvm::zip(x->getOperands(), y->getOperands()))
      if (!areEqual(left, right))
        return false;
    known.insert({x, y});
    return true;
  }

private:
  llvm::DenseSet<std::pair<Operation *, Operation *>> known;
};
} // namespace

void RepeatedOps::merge(Value value) {
  Operation *first = value.getDefiningOp();
  if (!first || first->getBlock() != &block)
    return;
  Comparison comparison;
  for (Operation *op = first->getNextNode(); op; op = op->getNextNode()) {
    if (op->getName() != first->getName() || op->use_empty() ||
        !comparison.areEqual(value, op->getResult(0)))
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      moved.push_back({&use, use.get()});
      use.set(value);
    }
  }
}

void RepeatedOps::undo() {
  for (auto [use, value] : llvm::reverse(moved))
    use->set(value);
}
