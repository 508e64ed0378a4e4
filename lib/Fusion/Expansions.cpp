//===- Expansions.cpp - Expansion of ops into others ----------------------===//

#include "Expansions.h"

#include "scalify/Dialect/StableHLO/Values.h"

using namespace mlir;
using namespace scalify;

Value scalify::zeroOf(ImplicitLocOpBuilder &b, Type element) {
  return stablehlo::buildZero(b, b.getLoc(), element);
}

Value scalify::spreadOver(ImplicitLocOpBuilder &b, Value scalar, Type type) {
  return stablehlo::BroadcastInDimOp::create(b, type, scalar,
                                             ArrayRef<int64_t>());
}

/// True for ops on tensors of static shape and real numbers. Import splits
/// complex numbers where it can; `scalify-prepare-plan` refuses the others.
static bool isExpandable(Operation *op) {
  return llvm::all_of(op->getOperandTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() &&
           !isa<ComplexType>(tensor.getElementType());
  });
}

/// Replaces `op` by `values`, and copies its discardable attributes to the ops
/// built between `last`, null at a block's start, and `op`.
static void replaceOp(Operation *op, Operation *last, ValueRange values) {
  Operation *made = last ? last->getNextNode() : &op->getBlock()->front();
  for (; made != op; made = made->getNextNode()) {
    if (isa<stablehlo::ConstantOp>(made))
      continue; // constants have no phase
    for (NamedAttribute attr : op->getDiscardableAttrs())
      made->setDiscardableAttr(attr.getName(), attr.getValue());
  }
  op->replaceAllUsesWith(values);
  op->erase();
}

FailureOr<unsigned> scalify::expandOps(func::FuncOp function,
                                       function_ref<bool(Operation *)> isChosen,
                                       Expansion expand) {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isChosen(op) && isExpandable(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Operation *last = op->getPrevNode();
    FailureOr<SmallVector<Value>> values = expand(b, op);
    if (failed(values))
      return failure();
    replaceOp(op, last, *values);
  }
  return static_cast<unsigned>(ops.size());
}
