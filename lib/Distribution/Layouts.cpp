//===- Layouts.cpp - Shardings of values ----------------------------------===//

#include "Layouts.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace scalify;

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

LogicalResult Layouts::readOp(Operation *op) {
  SmallVector<Value> values(op->getResults());
  for (Region &region : op->getRegions())
    llvm::append_range(values, region.getArguments());
  for (Value value : values)
    if (failed(add(value, getSharding(value), op)))
      return failure();
  return success();
}

FailureOr<Layouts> Layouts::read(func::FuncOp function) {
  Layouts layouts;
  for (BlockArgument argument : function.getArguments())
    if (failed(layouts.add(argument, getSharding(argument), function)))
      return failure();
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
