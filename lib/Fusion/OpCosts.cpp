//===- OpCosts.cpp - Costs of ops in a kernel -----------------------------===//

#include "OpCosts.h"

#include "Clusters.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"

using namespace mlir;
using namespace scalify;

double scalify::costOf(Operation *op) {
  using namespace stablehlo;
  if (isa<ExpOp, Expm1Op, LogOp, Log1pOp, TanhOp, LogisticOp, PowOp, SineOp,
          CosineOp, TanOp, Atan2Op, CbrtOp, RemOp>(op))
    return 20;
  if (isa<RandomBitsOp>(op))
    return 100;
  if (isa<DivOp, SqrtOp, RsqrtOp, QuantizeOp>(op))
    return 8;
  if (isa<DequantizeOp, ReducePrecisionOp, GatherOp>(op))
    return 4;
  if (isa<stablehlo::ConstantOp, BroadcastInDimOp, ReshapeOp, TransposeOp,
          SliceOp, IotaOp, ReverseOp, plan::WindowsOp>(op))
    return 0;
  return 1;
}

bool scalify::isView(Operation *op) {
  using namespace stablehlo;
  if (op->hasAttr(plan::kMaterialiseAttr))
    return false;
  return isa<BroadcastInDimOp, ReshapeOp, TransposeOp, SliceOp, ReverseOp,
             IotaOp, stablehlo::ConstantOp, plan::WindowsOp>(op);
}

unsigned scalify::largeOperands(Operation *op) {
  llvm::SmallPtrSet<Value, 4> seen;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (def && isView(def) && def->getNumOperands() == 1 &&
        countOf(def->getOperand(0)) * 8 <= countOf(operand))
      continue;
    if (def && def->getNumOperands() == 0 && !isSource(operand))
      continue;
    if (countOf(operand) > 1)
      seen.insert(operand);
  }
  return seen.size();
}
