//===- ShardBatch.cpp - A plain step becomes a data-parallel one ----------===//
//
// What shardings of JAX say of data parallelism: each rank has rows of the
// batch, and all else whole. Partitioning makes of it sums over ranks.
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "scalify/Dialect/Scalify/Scalify.h"
#include "scalify/Dialect/Scalify/ScalifyQueries.h"
#include "scalify/Dialect/StableHLO/StableHLO.h"
#include "scalify/Distribution/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace scalify {
#define GEN_PASS_DEF_SHARDBATCHPASS
#include "scalify/Distribution/Passes.h.inc"
} // namespace scalify

using namespace mlir;
using namespace scalify;

static constexpr StringLiteral kAxis = "data";

/// A loop over micro-batches takes them apart by the first dimension.
static bool isReadByLoop(BlockArgument argument) {
  return llvm::any_of(argument.getUsers(), [](Operation *user) {
    return isa<stablehlo::WhileOp>(user) ||
           user->getParentOfType<stablehlo::WhileOp>();
  });
}

/// The dimension of rows that ranks divide, or -1.
static int64_t findRows(BlockArgument argument, int64_t ranks) {
  auto type = cast<RankedTensorType>(argument.getType());
  for (int64_t dim = isReadByLoop(argument); dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) % ranks == 0)
      return dim;
  return -1;
}

static sdy::TensorShardingAttr makeSharding(Type type, int64_t split) {
  MLIRContext *context = type.getContext();
  SmallVector<sdy::DimensionShardingAttr> dims;
  for (int64_t dim = 0; dim < cast<RankedTensorType>(type).getRank(); ++dim) {
    SmallVector<sdy::AxisRefAttr> axes;
    if (dim == split)
      axes.push_back(sdy::AxisRefAttr::get(context, kAxis, 0, 0));
    dims.push_back(sdy::DimensionShardingAttr::get(context, axes,
                                                   /*isClosed=*/true, -1));
  }
  return sdy::TensorShardingAttr::get(
      context, FlatSymbolRefAttr::get(context, "mesh"), dims, {}, {});
}

namespace {
struct ShardBatchPass : scalify::impl::ShardBatchPassBase<ShardBatchPass> {
  using ShardBatchPassBase::ShardBatchPassBase;
  void runOnOperation() override;

private:
  LogicalResult shardArguments(func::FuncOp main);
};
} // namespace

LogicalResult ShardBatchPass::shardArguments(func::FuncOp main) {
  bool hasBatch = false;
  for (BlockArgument argument : main.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto role = main.getArgAttrOfType<StringAttr>(index, kRoleAttr);
    int64_t dim = -1;
    if (role && role.getValue() == "batch") {
      dim = findRows(argument, ranks);
      if (dim < 0)
        return emitError(argument.getLoc())
               << "the batch '" << scalify::getArgumentName(argument)
               << "' of type " << argument.getType() << " has no rows that "
               << ranks.getValue()
               << " ranks divide: lower the step with the whole batch of all "
                  "ranks";
      hasBatch = true;
    }
    main.setArgAttr(index, kShardingAttr,
                    makeSharding(argument.getType(), dim));
  }
  if (!hasBatch)
    return main.emitOpError("has no argument with the role 'batch', of which "
                            "ranks could have rows each: lower it with "
                            "shardings");
  return success();
}

void ShardBatchPass::runOnOperation() {
  auto main = getOperation().lookupSymbol<func::FuncOp>("main");
  if (!main || ranks < 2)
    return;
  if (sdy::findLargestMesh(getOperation())) {
    main.emitOpError("has a mesh of its own, whose shardings say what ranks "
                     "have");
    return signalPassFailure();
  }
  if (failed(shardArguments(main)))
    return signalPassFailure();
  for (unsigned index = 0; index < main.getNumResults(); ++index)
    main.setResultAttr(index, kShardingAttr,
                       makeSharding(main.getResultTypes()[index], -1));
  OpBuilder builder = OpBuilder::atBlockBegin(getOperation().getBody());
  auto axis = sdy::MeshAxisAttr::get(&getContext(), kAxis, ranks);
  sdy::MeshOp::create(builder, main.getLoc(), "mesh",
                      sdy::MeshAttr::get(&getContext(), {axis}, {}));
}
