//===- KernelBody.cpp - Builder of a kernel's region ----------------------===//

#include "KernelBody.h"

#include "CommandParts.h"
#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/StableHLO/Reductions.h"
#include "scalify/Import/Locations.h"
#include "scalify/Precision/MeasuredScale.h"
#include "scalify/Precision/Recompute.h"

using namespace mlir;
using namespace scalify;

void KernelBody::addInput(Value value, Value buffer) {
  reads.push_back(buffer);
  map.map(value, block->addArgument(value.getType(), value.getLoc()));
}

int64_t KernelBody::addScatter(stablehlo::ScatterOp op, Value buffer) {
  scatter = op;
  worked = block->addArgument(op.getInputs()[0].getType(), loc);
  reads.push_back(buffer);
  return static_cast<int64_t>(reads.size()) - 1;
}

/// Makes the kernel read its scales from memory, so that kernels that differ
/// only in scales share code.
void KernelBody::readScale(Operation *op, Operation *copied,
                           ScaleBuffer getScaleBuffer) {
  if (auto constant =
          op->getOperand(1).getDefiningOp<stablehlo::ConstantOp>()) {
    auto entry = op->getAttrOfType<IntegerAttr>(plan::kScaleEntryAttr);
    Value &scale = scales[entry ? Attribute(entry) : constant.getValue()];
    if (!scale) {
      scale = block->addArgument(constant.getOutput().getType(), loc);
      reads.push_back(getScaleBuffer(constant, entry));
    }
    copied->setOperand(1, scale);
  }
  if (isa<QuantizeOp>(copied) && hasExactReciprocal(op->getOperand(1)))
    copied->setAttr(plan::kExactReciprocalAttr, builder.getUnitAttr());
}

void KernelBody::finishCast(Operation *op, QuantizeOp copied) {
  if (op->hasAttr(kScaledAttr))
    copied->setAttr(plan::kScaledAttr, builder.getUnitAttr());
  if (op->hasAttr(kUncountedAttr)) {
    copied->setAttr(plan::kUncountedCastAttr, builder.getUnitAttr());
  } else {
    auto type = cast<RankedTensorType>(copied.getResult().getType());
    auto named = [&](StringRef name, Attribute value) {
      return builder.getNamedAttr(name, value);
    };
    casts.push_back(builder.getDictionaryAttr(
        {named("cast",
               builder.getStringAttr(copied.getCast().value_or("quantize"))),
         named("loc", builder.getStringAttr(describeLocation(op->getLoc()))),
         named("format", TypeAttr::get(type.getElementType())),
         named("elements", builder.getI64IntegerAttr(type.getNumElements()))}));
  }
  copied.removeCastAttr();
}

void KernelBody::copy(Operation *op, ScaleBuffer getScaleBuffer) {
  Operation *copied = builder.clone(*op, map);
  if (scatter && op == scatter)
    copied->setOperand(0, worked);
  copied->setDiscardableAttrs(DictionaryAttr::get(op->getContext()));
  if (isa<stablehlo::ReduceOp>(op) && op->hasAttr(stablehlo::kInOrderAttr))
    copied->setAttr(stablehlo::kInOrderAttr, builder.getUnitAttr());
  if (isa<QuantizeOp, DequantizeOp>(op))
    readScale(op, copied, getScaleBuffer);
  if (auto quantize = dyn_cast<QuantizeOp>(copied))
    finishCast(op, quantize);
}

void KernelBody::finish(ArrayRef<Value> outputs) {
  auto yields = llvm::map_to_vector(
      outputs, [&](Value output) { return map.lookup(output); });
  plan::YieldOp::create(builder, loc, yields);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && op.getNumResults() > 0)
      op.erase();
}
