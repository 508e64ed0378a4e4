//===- ValueShardings.cpp - Shardings of values ---------------------------===//

#include "ValueShardings.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace scalify;

static sdy::TensorShardingAttr getResultSharding(Operation *op,
                                                 unsigned result) {
  if (auto reshard = dyn_cast<sdy::ReshardOp>(op))
    return reshard.getSharding();
  if (auto out = op->getAttrOfType<sdy::TensorShardingAttr>("out_sharding"))
    return out;
  auto each = op->getAttrOfType<sdy::TensorShardingPerValueAttr>(kShardingAttr);
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(op))
    each = manual.getOutShardings();
  return each ? each.getShardings()[result] : sdy::TensorShardingAttr();
}

/// The types of a manual computation's arguments are local along the manual
/// axes; the free axes shard them further.
static sdy::TensorShardingAttr getFreeSharding(sdy::ManualComputationOp op,
                                               unsigned argument) {
  sdy::TensorShardingAttr sharding =
      op.getInShardings().getShardings()[argument];
  auto isManual = [&](sdy::AxisRefAttr axis) {
    return llvm::any_of(op.getManualAxes().getAxes(), [&](StringAttr name) {
      return name.getValue() == axis.getName();
    });
  };
  SmallVector<sdy::DimensionShardingAttr> dims;
  for (sdy::DimensionShardingAttr dim : sharding.getDimShardings()) {
    SmallVector<sdy::AxisRefAttr> free;
    llvm::copy_if(dim.getAxes(), std::back_inserter(free),
                  [&](auto axis) { return !isManual(axis); });
    dims.push_back(sdy::DimensionShardingAttr::get(
        op.getContext(), free, dim.getIsClosed(), dim.getPriority()));
  }
  return sdy::TensorShardingAttr::get(op.getContext(), sharding.getMeshOrRef(),
                                      dims, {}, {});
}

sdy::TensorShardingAttr scalify::getSharding(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return getResultSharding(result.getOwner(), result.getResultNumber());
  auto argument = cast<BlockArgument>(value);
  unsigned index = argument.getArgNumber();
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto function = dyn_cast<func::FuncOp>(parent))
    return function.getArgAttrOfType<sdy::TensorShardingAttr>(index,
                                                              kShardingAttr);
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(parent))
    return getFreeSharding(manual, index);
  // Regions of other ops than loops are on scalars.
  if (isa<stablehlo::WhileOp>(parent))
    return getResultSharding(parent, index);
  return {};
}
