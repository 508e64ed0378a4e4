//===- EvenShardings.cpp - Drop axes that do not divide dimensions --------===//
//
// Shardy also shards dimensions unevenly, since XLA's partitioner, for which it
// was made, pads shards. Here all shards of a value have equal size.
//
//===----------------------------------------------------------------------===//

#include "DeviceMesh.h"
#include "ValueShardings.h"

#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_EVENSHARDINGSPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

/// Returns the sharding of a value of this type without axes that do not divide
/// their dimension, nor the axes minor to them.
static FailureOr<sdy::TensorShardingAttr>
makeEven(sdy::TensorShardingAttr sharding, Type type, Operation *op) {
  if (failed(sharding.verifyFor(op, type, [&] { return op->emitOpError(); })))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return sharding;
  DeviceMesh mesh(sharding.getMesh(op));
  return sharding.keepAxes([&](int64_t dim, ArrayRef<sdy::AxisRefAttr> axes) {
    while (tensor.getDimSize(dim) % mesh.getNumParts(axes) != 0)
      axes = axes.drop_back();
    return axes;
  });
}

static LogicalResult visitResults(func::FuncOp function) {
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    auto sharding = function.getResultAttrOfType<sdy::TensorShardingAttr>(
        index, kShardingAttr);
    if (!sharding)
      continue;
    FailureOr<sdy::TensorShardingAttr> even =
        makeEven(sharding, type, function);
    if (failed(even))
      return failure();
    function.setResultAttr(index, kShardingAttr, *even);
  }
  return success();
}

static LogicalResult visit(sdy::ReshardOp reshard) {
  FailureOr<sdy::TensorShardingAttr> even =
      makeEven(reshard.getSharding(), reshard.getType(), reshard);
  if (failed(even))
    return failure();
  reshard.setShardingAttr(*even);
  return success();
}

static LogicalResult visitResults(Operation *op) {
  auto each = op->getAttrOfType<sdy::TensorShardingPerValueAttr>(kShardingAttr);
  if (!each)
    return success();
  if (each.getShardings().size() != op->getNumResults())
    return op->emitOpError("has ")
           << each.getShardings().size() << " shardings for "
           << op->getNumResults() << " results";
  SmallVector<sdy::TensorShardingAttr> evens;
  for (auto [sharding, type] :
       llvm::zip(each.getShardings(), op->getResultTypes())) {
    FailureOr<sdy::TensorShardingAttr> even = makeEven(sharding, type, op);
    if (failed(even))
      return failure();
    evens.push_back(*even);
  }
  op->setAttr(kShardingAttr,
              sdy::TensorShardingPerValueAttr::get(op->getContext(), evens));
  return success();
}

static LogicalResult visit(Operation *op) {
  if (auto function = dyn_cast<func::FuncOp>(op))
    return visitResults(function);
  if (auto reshard = dyn_cast<sdy::ReshardOp>(op))
    return visit(reshard);
  return visitResults(op);
}

namespace {

struct EvenShardings : scalify::impl::EvenShardingsPassBase<EvenShardings> {
  void runOnOperation() override {
    WalkResult walked = getOperation().walk(
        [](Operation *op) { return WalkResult(visit(op)); });
    if (walked.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
