//===- ScaleEntries.cpp - Scales of casts in a plan -----------------------===//

#include "ScaleEntries.h"

#include "scalify/Dialect/Plan/PlanAttrs.h"
#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace scalify;

int64_t scalify::findScalesArgument(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "scalify.initial"))
      return i;
  return -1;
}

/// Returns the entry that a rank-0 scale reads, if it is an element sliced from
/// the argument of scales.
static std::optional<int64_t> getEntry(Value scale, Value scales) {
  auto reshape = scale.getDefiningOp<stablehlo::ReshapeOp>();
  if (!reshape || !scales)
    return std::nullopt;
  auto slice = reshape.getOperand().getDefiningOp<stablehlo::SliceOp>();
  if (!slice || slice.getOperand() != scales)
    return std::nullopt;
  return slice.getStartIndices()[0];
}

static ElementsAttr makeScale(MLIRContext *context, float value) {
  auto type = RankedTensorType::get({}, Float32Type::get(context));
  return cast<ElementsAttr>(DenseElementsAttr::get(type, value));
}

void scalify::shareScales(func::FuncOp function) {
  Block &block = function.getBody().front();
  int64_t index = findScalesArgument(function);
  Value scales = index < 0 ? Value() : function.getArgument(index);
  ArrayRef<int32_t> initial;
  if (scales)
    initial = function
                  .getArgAttrOfType<DenseI32ArrayAttr>(
                      static_cast<unsigned>(index), "scalify.initial")
                  .asArrayRef();
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  llvm::MapVector<Attribute, Value> shared;
  for (Operation &op : block) {
    if (!isa<QuantizeOp, DequantizeOp>(op))
      continue;
    ElementsAttr value;
    if (std::optional<int64_t> entry = getEntry(op.getOperand(1), scales)) {
      value = makeScale(op.getContext(), std::ldexp(1.0f, initial[*entry]));
      op.setAttr(plan::kScaleEntryAttr, builder.getI64IntegerAttr(*entry));
    } else if (auto constant =
                   op.getOperand(1).getDefiningOp<stablehlo::ConstantOp>()) {
      value = constant.getValue();
    } else {
      continue;
    }
    Value &scale = shared[value];
    if (!scale)
      scale = stablehlo::ConstantOp::create(builder, function.getLoc(), value);
    op.setOperand(1, scale);
  }
  // Dead ops must not count in distances between ops.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<stablehlo::ConstantOp, stablehlo::SliceOp, stablehlo::ReshapeOp>(
            op) &&
        isOpTriviallyDead(&op))
      op.erase();
}
