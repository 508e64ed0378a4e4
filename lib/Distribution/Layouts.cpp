//===- Layouts.cpp - Shardings of values ----------------------------------===//

#include "Layouts.h"

#include "scalify/Dialect/StableHLO/StableHLO.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace scalify;

/// Returns the sharding of an op's result, or null.
static sdy::TensorShardingAttr getSharding(Operation *op, unsigned result) {
  if (auto out = op->getAttrOfType<sdy::TensorShardingAttr>("out_sharding"))
    return out;
  auto each = op->getAttrOfType<sdy::TensorShardingPerValueAttr>(kShardingAttr);
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(op))
    each = manual.getOutShardings();
  return each ? each.getShardings()[result] : sdy::TensorShardingAttr();
}

LogicalResult Layouts::addMesh(sdy::MeshAttr found, Operation *op) {
  if (!meshAttr) {
    auto inOrder = llvm::seq<int64_t>(0, found.getTotalSize());
    if (!found.getDeviceIds().empty() &&
        !llvm::equal(found.getDeviceIds(), inOrder))
      return op->emitOpError("is on a mesh whose devices are not in order, "
                             "which is not supported; make the mesh of the "
                             "devices in their own order");
    meshAttr = found;
    mesh = std::make_shared<DeviceMesh>(found);
  }
  if (meshAttr != found)
    return op->emitOpError("is on another mesh than values before it, which "
                           "is not supported; use one mesh for the step");
  return success();
}

LogicalResult Layouts::add(Value value, sdy::TensorShardingAttr sharding,
                           Operation *op) {
  auto whole = dyn_cast<RankedTensorType>(value.getType());
  if (!whole)
    return success();
  SmallVector<int64_t> shape(whole.getShape());
  if (sharding && sharding.getMesh(op).getTotalSize() == 1)
    sharding = {};
  if (sharding) {
    if (failed(addMesh(sharding.getMesh(op), op)))
      return failure();
    if (!sharding.getUnreducedAxes().empty())
      return op->emitOpError("has a value with unreduced axes, which is "
                             "not supported; constrain it with "
                             "jax.lax.with_sharding_constraint");
    for (auto [dim, axes] : llvm::enumerate(sharding.getDimShardings())) {
      int64_t parts = mesh->getNumParts(axes.getAxes());
      if (shape[dim] % parts != 0)
        return op->emitOpError()
               << "has dimension " << dim << " of " << shape[dim]
               << " elements in " << parts
               << " parts, which do not divide it; pad it, or constrain the "
                  "value with jax.lax.with_sharding_constraint";
      shape[dim] /= parts;
    }
  }
  auto local = RankedTensorType::get(shape, whole.getElementType());
  layouts[value] = {whole, local, sharding};
  return success();
}

/// Reads the body arguments of a manual computation. Their types are already
/// local along the manual axes; the free axes shard them further.
LogicalResult Layouts::readManual(sdy::ManualComputationOp op) {
  auto isManual = [&](sdy::AxisRefAttr axis) {
    return llvm::any_of(op.getManualAxes().getAxes(), [&](StringAttr name) {
      return name.getValue() == axis.getName();
    });
  };
  for (auto [argument, sharding] : llvm::zip(
           op.getBody().getArguments(), op.getInShardings().getShardings())) {
    SmallVector<sdy::DimensionShardingAttr> dims;
    for (sdy::DimensionShardingAttr dim : sharding.getDimShardings()) {
      SmallVector<sdy::AxisRefAttr> free;
      llvm::copy_if(dim.getAxes(), std::back_inserter(free),
                    [&](auto axis) { return !isManual(axis); });
      dims.push_back(sdy::DimensionShardingAttr::get(
          op.getContext(), free, dim.getIsClosed(), dim.getPriority()));
    }
    auto freeSharding = sdy::TensorShardingAttr::get(
        op.getContext(), sharding.getMeshOrRef(), dims, {}, {});
    if (failed(add(argument, freeSharding, op)))
      return failure();
  }
  return success();
}

LogicalResult Layouts::readOp(Operation *op) {
  for (OpResult result : op->getResults())
    if (failed(add(result, getSharding(op, result.getResultNumber()), op)))
      return failure();
  if (auto manual = dyn_cast<sdy::ManualComputationOp>(op))
    return readManual(manual);
  // Loop carries have the shardings of the results; other regions are on
  // scalars.
  bool isLoop = isa<stablehlo::WhileOp>(op);
  for (Region &region : op->getRegions())
    for (BlockArgument argument : region.getArguments())
      if (failed(add(argument,
                     isLoop ? getSharding(op, argument.getArgNumber())
                            : sdy::TensorShardingAttr(),
                     op)))
        return failure();
  return success();
}

FailureOr<Layouts> Layouts::read(func::FuncOp function) {
  Layouts layouts;
  for (BlockArgument argument : function.getArguments()) {
    auto sharding = function.getArgAttrOfType<sdy::TensorShardingAttr>(
        argument.getArgNumber(), kShardingAttr);
    if (failed(layouts.add(argument, sharding, function)))
      return failure();
  }
  WalkResult walked = function.getBody().walk(
      [&](Operation *op) { return WalkResult(layouts.readOp(op)); });
  if (walked.wasInterrupted())
    return failure();
  if (!layouts.mesh)
    layouts.mesh = std::make_shared<DeviceMesh>(
        sdy::MeshAttr::get(function.getContext(), {}, {}));
  return layouts;
}

RankedTensorType Layouts::getWhole(Value value) const {
  return layouts.at(value).whole;
}

RankedTensorType Layouts::getLocal(Value value) const {
  return layouts.at(value).local;
}

Axes Layouts::getAxes(Value value, int64_t dim) const {
  sdy::TensorShardingAttr sharding = layouts.at(value).sharding;
  return sharding ? sharding.getDimShardings()[dim].getAxes() : Axes();
}

bool Layouts::isSplit(Value value, int64_t dim) const {
  return getWhole(value).getDimSize(dim) != getLocal(value).getDimSize(dim);
}

void Layouts::setLocalTypes() {
  for (auto &[value, layout] : layouts)
    Value(value).setType(layout.local);
}

void Layouts::replace(Value value, Value by) {
  // Erase the old entry: a later value may reuse its address.
  Layout layout = layouts.at(value);
  Digits digits = getPartial(value);
  layouts.erase(value);
  partial.erase(value);
  layouts[by] = layout;
  setPartial(by, std::move(digits));
  value.replaceAllUsesExcept(by, by.getDefiningOp());
}

void Layouts::setPartial(Value value, Axes axes) {
  setPartial(value, mesh->getDigits(axes));
}

void Layouts::setPartial(Value value, Digits digits) {
  if (digits.empty())
    partial.erase(value);
  else
    partial[value] = std::move(digits);
}
