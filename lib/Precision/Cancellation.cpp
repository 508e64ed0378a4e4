//===- Cancellation.cpp - Sums that amplify errors ------------------------===//

#include "Cancellation.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

using namespace mlir;
using namespace scalify;

bool scalify::isCancelled(OpOperand &use) {
  Operation *sum = use.getOwner(), *operand = use.get().getDefiningOp();
  if (!isa<stablehlo::AddOp, stablehlo::SubtractOp>(sum) || !operand)
    return false;
  auto before = operand->getAttrOfType<IntegerAttr>(kScaleAttr);
  auto after = sum->getAttrOfType<IntegerAttr>(kScaleAttr);
  return before && after && after.getInt() + 1 < before.getInt();
}
